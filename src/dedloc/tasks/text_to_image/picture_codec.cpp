#include "dedloc/tasks/text_to_image/picture_codec.h"

#include <cmath>
#include <torch/nn.h>

#include "dedloc/base/random.h"
#include "dedloc/images/crops.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/safetensors.h"

namespace dedloc::tasks {
namespace {

constexpr const char* codec_format = "dedloc-image-codes-1";
constexpr std::int64_t codec_batch = 64;
constexpr double codec_rate = 2e-3;
constexpr double cooling = 0.25;  // the last part of the training, in which the rate falls

std::vector<std::pair<std::string, torch::Tensor>> tensors_of(const ImageCodes& codes) {
    std::vector<std::pair<std::string, torch::Tensor>> all;
    for (const auto& item : codes.named_parameters()) all.emplace_back(item.key(), item.value());
    for (const auto& item : codes.named_buffers()) all.emplace_back(item.key(), item.value());
    return all;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += word + "\n";
    return text;
}

std::vector<std::string> parted(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        words.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

Bytes file_of(const ImageCodes& codes, const CaptionWords& words) {
    Safetensors file;
    file.metadata["format"] = codec_format;
    file.metadata["words"] = joined(words.words());
    std::vector<torch::Tensor> kept;
    for (const auto& [name, tensor] : tensors_of(codes)) {
        kept.push_back(tensor.detach().contiguous());
        const auto* bytes = static_cast<const std::uint8_t*>(kept.back().data_ptr());
        file.tensors[name] = {.type = SafetensorsType::f32,
                              .shape = kept.back().sizes().vec(),
                              .data = ByteView(bytes, kept.back().nbytes())};
    }
    return encode_safetensors(file);
}

Ok load(const Safetensors& file, ImageCodes& codes) {
    const torch::NoGradGuard none;
    const auto wanted = tensors_of(codes);
    if (file.tensors.size() != wanted.size())
        return make_error(ErrorKind::bad_input,
                          "{} tensors are not those of image codes of these sizes",
                          file.tensors.size());
    for (auto [name, tensor] : wanted) {
        DEDLOC_TRY(const Safetensor found, file.find(name));
        DEDLOC_TRY(std::vector<float> values, found.floats());
        if (found.shape != tensor.sizes().vec())
            return make_error(
                ErrorKind::bad_input, "image codes of other sizes: '{}' does not fit", name);
        if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
            return make_error(ErrorKind::bad_input, "image codes: '{}' is not finite", name);
        tensor.copy_(torch::from_blob(values.data(), tensor.sizes(), torch::kFloat32));
    }
    return {};
}

}  // namespace

Result<std::shared_ptr<const PictureCodec>> PictureCodec::parse(ByteView file,
                                                                const ImageCodesConfig& sizes) {
    DEDLOC_TRY(const Safetensors parsed, parse_safetensors(file));
    const auto format = parsed.metadata.find("format");
    const auto words = parsed.metadata.find("words");
    if (format == parsed.metadata.end() || format->second != codec_format ||
        words == parsed.metadata.end())
        return make_error(ErrorKind::bad_input, "this is no file of image codes");
    DEDLOC_TRY(CaptionWords numbered, CaptionWords::numbered(parted(words->second)));
    auto codes = std::make_shared<ImageCodes>(sizes);
    DEDLOC_TRY_VOID(load(parsed, *codes));
    auto codec =
        std::shared_ptr<PictureCodec>(new PictureCodec(std::move(codes), std::move(numbered)));
    codec->file_.assign(file.begin(), file.end());
    codec->hash_ = security::sha256(file);
    return std::shared_ptr<const PictureCodec>(std::move(codec));
}

std::shared_ptr<const PictureCodec> PictureCodec::untrained(const ImageCodesConfig& sizes,
                                                            CaptionWords words) {
    return std::shared_ptr<const PictureCodec>(
        new PictureCodec(std::make_shared<ImageCodes>(sizes), std::move(words)));
}

std::vector<images::Picture> PictureCodec::draw(const torch::Tensor& codes) const {
    const auto pixels = (decode(codes) * 255).round().to(torch::kUInt8).permute({0, 2, 3, 1});
    std::vector<images::Picture> pictures;
    for (std::int64_t i = 0; i < pixels.size(0); ++i) {
        const auto one = pixels.select(0, i).contiguous();
        auto picture = images::Picture::of_size(static_cast<std::uint32_t>(one.size(1)),
                                                static_cast<std::uint32_t>(one.size(0)));
        const auto* from = one.data_ptr<std::uint8_t>();
        std::copy(from, from + one.numel(), picture.rgb.begin());
        pictures.push_back(std::move(picture));
    }
    return pictures;
}

torch::Tensor square_of(const images::Picture& picture, std::int64_t side) {
    images::Picture square = images::centre_crop(picture, static_cast<std::uint32_t>(side), 1);
    return torch::from_blob(square.rgb.data(), {1, side, side, 3}, torch::kUInt8)
        .permute({0, 3, 1, 2})
        .contiguous();
}

Bytes train_codec(const torch::Tensor& pictures,
                  const CaptionWords& words,
                  const CodecTraining& training) {
    ImageCodes codes(training.sizes, training.seed);
    torch::optim::AdamW optimizer(codes.parameters(), torch::optim::AdamWOptions(codec_rate));
    Random random(training.seed);
    for (std::uint64_t step = 0; step < training.steps; ++step) {
        const double left = static_cast<double>(training.steps - step) /
                            (cooling * static_cast<double>(training.steps));
        static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups().front().options())
            .lr(codec_rate * std::min(1.0, left));
        std::vector<std::int64_t> chosen;
        for (std::int64_t i = 0; i < codec_batch; ++i)
            chosen.push_back(static_cast<std::int64_t>(
                random.below(static_cast<std::uint64_t>(pictures.size(0)))));
        const auto batch =
            pictures.index_select(0, torch::tensor(chosen)).to(torch::kFloat32) / 255;
        optimizer.zero_grad();
        codes.training_loss(batch).backward();
        optimizer.step();
        if (training.progress) training.progress(step + 1);
    }
    return file_of(codes, words);
}

}  // namespace dedloc::tasks
