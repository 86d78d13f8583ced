#include "dedloc/tasks/text_to_image/caption_tokens.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "dedloc/base/file.h"
#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/picture_folder.h"
#include "dedloc/tasks/text_to_image/codes_store.h"
#include "dedloc/text/cache.h"
#include "dedloc/torch_bridge/device.h"

namespace dedloc::tasks {
namespace {

constexpr std::int64_t encode_batch = 64;
constexpr std::int64_t made_up_rows = 64;

using Indices = std::vector<std::size_t>;

// Picks what is held out, by the file's word; without one every 1 / share-th.
Indices held_out_of(const images::ImageFolder& folder, double share) {
    Indices held_out;
    const auto& entries = folder.entries();
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (entries[i].held_out) held_out.push_back(i);
    if (!held_out.empty()) return held_out;
    const auto stride = static_cast<std::size_t>(std::max(2.0, 1 / share));
    for (std::size_t i = stride / 2; i < entries.size(); i += stride) held_out.push_back(i);
    return held_out;
}

Indices others_than(const Indices& held_out, std::size_t count) {
    Indices all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    Indices others;
    std::ranges::set_difference(all, held_out, std::back_inserter(others));
    return others;
}

std::vector<std::string> captions_of(const images::ImageFolder& folder, const Indices& indices) {
    std::vector<std::string> captions;
    for (const std::size_t i : indices) captions.push_back(folder.entries()[i].caption);
    return captions;
}

torch::Tensor word_rows(const CaptionWords& words,
                        const std::vector<std::string>& captions,
                        std::size_t length) {
    const auto rows = static_cast<std::int64_t>(captions.size());
    torch::Tensor all = torch::zeros({rows, static_cast<std::int64_t>(length)}, torch::kInt32);
    auto out = all.accessor<std::int32_t, 2>();
    for (std::size_t i = 0; i < captions.size(); ++i) {
        const auto numbers = words.encode(captions[i], length);
        for (std::size_t j = 0; j < length; ++j)
            out[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)] =
                static_cast<std::int32_t>(numbers[j]);
    }
    return all;
}

// Pictures of the folder by number; [n, 3, side, side] uint8.
Result<torch::Tensor> pixels_of(const images::ImageFolder& folder,
                                std::span<const std::size_t> indices,
                                std::int64_t side) {
    std::vector<torch::Tensor> all;
    for (const std::size_t i : indices) {
        DEDLOC_TRY(const images::Picture picture, folder.picture(i));
        all.push_back(square_of(picture, side));
    }
    return torch::cat(all);
}

Digest recipe_key(const Digest& pictures,
                  const PicturesKeys& keys,
                  std::int64_t words,
                  std::uint64_t seed) {
    const std::string text = fmt::format("dedloc/image-codes/1 {} {} {} {} {} {} {} {} {}",
                                         pictures.hex(),
                                         keys.sizes.side,
                                         keys.sizes.codes_side,
                                         keys.sizes.codes,
                                         keys.sizes.width,
                                         keys.codes_steps,
                                         keys.held_out,
                                         words,
                                         seed);
    return security::sha256(as_bytes(text));
}

class Opening {
  public:
    Opening(const run::TaskConfig& config,
            const TaskOptions& options,
            const TextToImageConfig& model,
            std::shared_ptr<const images::ImageFolder> folder)
        : config_(config),
          options_(options),
          keys_(pictures_keys(config)),
          model_(model),
          folder_(std::move(folder)),
          held_out_(held_out_of(*folder_, keys_.held_out)),
          train_(others_than(held_out_, folder_->entries().size())) {}

    Result<std::shared_ptr<const CaptionTokens>> tokens();

  private:
    Result<std::shared_ptr<const PictureCodec>> codec() const;
    Result<Bytes> train() const;
    Result<CaptionWords> words() const {
        return CaptionWords::of(captions_of(*folder_, train_),
                                static_cast<std::size_t>(model_.text_vocabulary - 2));
    }
    // [pictures, codes] int32, of all pictures of the folder.
    Result<torch::Tensor> codes_of_all(const PictureCodec& codec) const;
    Result<torch::Tensor> encode_all(const PictureCodec& codec) const;
    void tell(std::string_view what, std::size_t done, std::size_t all) const {
        if (options_.progress) options_.progress(what, done, all);
    }
    TokenRows rows(const PictureCodec& codec, const torch::Tensor& codes, const Indices& of) const;

    const run::TaskConfig& config_;
    const TaskOptions& options_;
    PicturesKeys keys_;
    TextToImageConfig model_;
    std::shared_ptr<const images::ImageFolder> folder_;
    Indices held_out_;
    Indices train_;
};

Result<Bytes> Opening::train() const {
    const auto bytes_each = static_cast<std::size_t>(3 * keys_.sizes.side * keys_.sizes.side);
    const std::size_t most = std::max<std::size_t>(codec_pictures_bytes_max / bytes_each, 1);
    const std::size_t stride = (train_.size() + most - 1) / most;
    Indices seen;
    for (std::size_t i = 0; i < train_.size(); i += stride) seen.push_back(train_[i]);
    log(LogLevel::warning,
        "tasks",
        "training the image codes on {} pictures, {} steps; the next time they are in the cache",
        seen.size(),
        keys_.codes_steps);
    DEDLOC_TRY(const torch::Tensor pixels, pixels_of(*folder_, seen, keys_.sizes.side));
    DEDLOC_TRY(const CaptionWords words, this->words());
    return train_codec(pixels,
                       words,
                       {.sizes = keys_.sizes,
                        .steps = keys_.codes_steps,
                        .seed = config_.seed,
                        .progress = [this](std::uint64_t step) {
                            tell("training the image codes", step, keys_.codes_steps);
                        }});
}

Result<std::shared_ptr<const PictureCodec>> Opening::codec() const {
    DEDLOC_TRY(const auto wanted, codes_hash_of(config_));
    if (wanted) {
        const auto file = kept_codes(*wanted);
        if (file) return PictureCodec::parse(*file, keys_.sizes);
        if (!options_.unprepared)
            return make_error(ErrorKind::not_found,
                              "the run's image codes ({}…) are not on this machine, and no peer "
                              "gave them: {}",
                              wanted->short_hex(),
                              file.error().message());
    }
    const Digest key =
        recipe_key(folder_->fingerprint(), keys_, model_.text_vocabulary, config_.seed);
    if (const auto made = trained_codes(key)) {
        DEDLOC_TRY(auto codec, PictureCodec::parse(*made, keys_.sizes));
        DEDLOC_TRY_VOID(keep_codes(codec->hash(), codec->file()));
        return codec;
    }
    if (options_.unprepared) {
        DEDLOC_TRY(CaptionWords words, this->words());
        return PictureCodec::untrained(keys_.sizes, std::move(words));
    }
    DEDLOC_TRY(const Bytes file, train_codes(key, [this] { return train(); }));
    return PictureCodec::parse(file, keys_.sizes);
}

Result<torch::Tensor> Opening::encode_all(const PictureCodec& codec) const {
    const auto count = static_cast<std::int64_t>(folder_->entries().size());
    torch::Tensor all = torch::zeros({count, keys_.sizes.length()}, torch::kInt32);
    for (std::int64_t begin = 0; begin < count; begin += encode_batch) {
        const std::int64_t end = std::min(begin + encode_batch, count);
        Indices indices(static_cast<std::size_t>(end - begin));
        std::iota(indices.begin(), indices.end(), static_cast<std::size_t>(begin));
        DEDLOC_TRY(const torch::Tensor pixels, pixels_of(*folder_, indices, keys_.sizes.side));
        all.slice(0, begin, end).copy_(codec.encode(pixels.to(torch::kFloat32) / 255));
        tell("turning pictures into codes",
             static_cast<std::size_t>(end),
             static_cast<std::size_t>(count));
    }
    return all;
}

// In the cache as 16 bits a code.
Result<torch::Tensor> Opening::codes_of_all(const PictureCodec& codec) const {
    const auto count = static_cast<std::int64_t>(folder_->entries().size());
    if (codec.file().empty()) return torch::zeros({count, keys_.sizes.length()}, torch::kInt32);
    DEDLOC_TRY(const std::string cache, text::default_cache_directory());
    const std::string path = fmt::format(
        "{}/pictures-{}-{}.codes", cache, codec.hash().short_hex(), folder_->fingerprint().hex());
    const auto bytes = static_cast<std::size_t>(2 * count * keys_.sizes.length());
    if (const auto kept = base::read_file(path, bytes); kept && kept->size() == bytes) {
        torch::Tensor codes = torch::empty({count, keys_.sizes.length()}, torch::kInt16);
        std::copy(kept->begin(), kept->end(), static_cast<char*>(codes.data_ptr()));
        codes = codes.to(torch::kInt32).bitwise_and(0xFFFF);
        if (codes.max().item<std::int64_t>() < keys_.sizes.codes) return codes;
    }
    DEDLOC_TRY(const torch::Tensor codes, encode_all(codec));
    const auto narrow = codes.to(torch::kInt16).contiguous();
    // A cache that cannot be written only costs time.
    (void)text::write_file(
        path, std::string_view(static_cast<const char*>(narrow.data_ptr()), narrow.nbytes()));
    return codes;
}

TokenRows Opening::rows(const PictureCodec& codec,
                        const torch::Tensor& codes,
                        const Indices& of) const {
    const std::vector<std::int64_t> numbers(of.begin(), of.end());
    return {
        .captions = word_rows(
            codec.words(), captions_of(*folder_, of), static_cast<std::size_t>(model_.text_length)),
        .codes = codes.index_select(0, torch::tensor(numbers))};
}

Result<std::shared_ptr<const CaptionTokens>> Opening::tokens() {
    if (!folder_->has_captions())
        return make_error(ErrorKind::bad_input,
                          "the folder {} has no captions.jsonl: text to image learns from lines "
                          "like {{\"file\": \"a.png\", \"caption\": \"a red hat\"}}",
                          options_.data_directory);
    if (train_.empty() || held_out_.empty())
        return make_error(ErrorKind::bad_input,
                          "of the folder's {} pictures {} are to be trained on and {} held out; "
                          "both are needed",
                          folder_->entries().size(),
                          train_.size(),
                          held_out_.size());
    auto tokens = std::make_shared<CaptionTokens>();
    DEDLOC_TRY(tokens->codec, codec());
    if (std::cmp_greater(tokens->codec->words().size(), model_.text_vocabulary))
        return make_error(ErrorKind::bad_input,
                          "text_to_image.words: {} are less than the {} of the run's image codes",
                          model_.text_vocabulary,
                          tokens->codec->words().size());
    DEDLOC_TRY(const torch::Tensor codes, codes_of_all(*tokens->codec));
    tokens->train = rows(*tokens->codec, codes, train_);
    tokens->held_out = rows(*tokens->codec, codes, held_out_);
    tokens->train_captions = captions_of(*folder_, train_);
    tokens->held_out_captions = captions_of(*folder_, held_out_);
    tokens->held_out_pictures = held_out_;
    tokens->pictures_key = pictures_key_of(*folder_);
    tokens->folder = folder_;
    return std::shared_ptr<const CaptionTokens>(std::move(tokens));
}

// Random numbers in the right places, for sizes and times.
Result<std::shared_ptr<const CaptionTokens>> made_up(const run::TaskConfig& config,
                                                     const TextToImageConfig& model) {
    const ImageCodesConfig sizes = pictures_keys(config).sizes;
    auto generator = at::detail::createCPUGenerator(config.seed);
    const auto rows = [&](std::int64_t length, std::int64_t numbers) {
        return torch::empty({made_up_rows, length})
            .uniform_(0, static_cast<double>(numbers), generator)
            .floor()
            .to(torch::kInt32)
            .clamp_max(numbers - 1);
    };
    auto tokens = std::make_shared<CaptionTokens>();
    tokens->train = {.captions = rows(model.text_length, model.text_vocabulary),
                     .codes = rows(sizes.length(), sizes.codes)};
    tokens->held_out = tokens->train;
    DEDLOC_TRY(const auto hash, codes_hash_of(config));
    if (hash) {
        if (const auto file = kept_codes(*hash)) {
            DEDLOC_TRY(tokens->codec, PictureCodec::parse(*file, sizes));
            return std::shared_ptr<const CaptionTokens>(std::move(tokens));
        }
    }
    const std::vector<std::string> one(1, "unknown");
    DEDLOC_TRY(CaptionWords words, CaptionWords::numbered(one));
    tokens->codec = PictureCodec::untrained(sizes, std::move(words));
    return std::shared_ptr<const CaptionTokens>(std::move(tokens));
}

}  // namespace

Result<std::shared_ptr<const CaptionTokens>> CaptionTokens::open(const run::TaskConfig& config,
                                                                 const TaskOptions& options) {
    DEDLOC_TRY_VOID(image_codes_sizes(config));
    DEDLOC_TRY(const TextToImageConfig model, text_to_image_sizes(config));
    if (options.data_directory.empty()) {
        if (options.unprepared) return made_up(config, model);
        return make_error(ErrorKind::not_found,
                          "say with --data which folder has the pictures and captions.jsonl (for "
                          "a try: `dedloc data emoji FOLDER` makes one)");
    }
    DEDLOC_TRY(
        auto folder,
        open_pictures(options, "pictures.pictures_hash", pictures_keys(config).pictures_hash));
    Opening opening(config, options, model, std::move(folder));
    return opening.tokens();
}

}  // namespace dedloc::tasks
