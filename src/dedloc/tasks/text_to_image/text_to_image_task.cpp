#include "dedloc/tasks/text_to_image/text_to_image_task.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dedloc/replica/kept_averages.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/module_weights.h"
#include "dedloc/tasks/picture_folder.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/text_to_image/caption_tokens.h"
#include "dedloc/tasks/text_to_image/sampler.h"
#include "dedloc/tasks/text_to_image/text_to_image_model.h"
#include "dedloc/tasks/text_to_image/text_to_image_section.h"
#include "dedloc/tasks/text_to_image/token_noise.h"
#include "dedloc/text/cache.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch_error.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {
namespace {

// An evaluation keeps no activations; what limits it is the attention of one layer.
constexpr std::int64_t evaluated_positions = 16384;

std::uint64_t rows_at_once(const TextToImageConfig& sizes) {
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(evaluated_positions / sizes.sequence(), 1));
}

struct TokenBatch {
    torch::Tensor captions;
    torch::Tensor codes;
};

TokenBatch tokens_of(const TokenRows& rows, const std::vector<std::int64_t>& numbers) {
    const auto chosen = torch::tensor(numbers);
    return {.captions = rows.captions.index_select(0, chosen).to(torch::kInt64),
            .codes = rows.codes.index_select(0, chosen).to(torch::kInt64)};
}

// For the loss: `read` is what the model reads of the codes, behind the captions.
torch_bridge::TorchBatch batch_of(const TokenBatch& tokens, const torch::Tensor& read) {
    torch_bridge::TorchBatch batch;
    batch.inputs = torch::cat({tokens.captions, read}, 1);
    batch.targets = tokens.codes;
    return batch;
}

std::vector<std::int64_t> numbers_from(std::uint64_t begin, std::uint64_t end) {
    std::vector<std::int64_t> numbers;
    for (std::uint64_t i = begin; i < end; ++i) numbers.push_back(static_cast<std::int64_t>(i));
    return numbers;
}

torch_bridge::TorchModel torch_model(const TextToImageConfig& sizes, std::uint64_t seed) {
    auto model = std::make_shared<TextToImageModel>(sizes, seed);
    torch_bridge::TorchModel result;
    result.module = model;
    result.loss = [model = model.get()](const torch_bridge::TorchBatch& batch) {
        const auto parts = batch.inputs.split_with_sizes(
            {batch.inputs.size(1) - batch.targets.size(1), batch.targets.size(1)}, 1);
        const auto losses = model->losses(parts[0], batch.targets, parts[1]);
        return torch_bridge::TorchLoss{.sum = losses.joined().sum(), .correct = {}};
    };
    return result;
}

class TextToImageTask final : public TrainingTask {
  public:
    TextToImageTask(run::TaskConfig config,
                    TextToImageConfig sizes,
                    std::string device,
                    std::shared_ptr<const CaptionTokens> tokens)
        : config_(std::move(config)),
          sizes_(sizes),
          device_(std::move(device)),
          tokens_(std::move(tokens)) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override;
    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format(
            "text to image with {} parameters (width {}, {} layers with {} sets of weights, {} "
            "words, {} × {} codes of {}) on {}, computed on {} in {}",
            sizes_.parameters_count(),
            sizes_.width,
            sizes_.layers,
            sizes_.weight_sets(),
            sizes_.text_vocabulary,
            sizes_.image_side,
            sizes_.image_side,
            sizes_.image_vocabulary,
            data_text(),
            device_,
            config_.precision);
    }
    std::optional<run::TaskConfig> decided_config() const override;
    std::vector<SharedBytes> files() const override {
        if (tokens_->codec->file().empty()) return {};
        return {SharedBytes(tokens_, tokens_->codec->file())};
    }
    Result<std::vector<Measure>> measure(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         std::uint64_t samples_max) const override;
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override;
    Result<std::vector<std::string>> sample_texts(std::uint64_t count) const override;
    MemoryEstimate memory(std::uint64_t micro_batch) const override {
        return text_to_image_memory(sizes_, micro_batch);
    }
    std::vector<Measure> facts() const override {
        const auto shared = static_cast<double>(sizes_.parameters_count());
        const auto apart = static_cast<double>(sizes_.unshared_parameters_count());
        return {{"unshared_parameters", apart}, {"sharing_factor", apart / shared}};
    }
    Result<std::unique_ptr<Generator>> generator(std::span<const float> parameters,
                                                 std::span<const float> buffers) const override;
    Result<Drawing> draw(std::span<const float> parameters,
                         std::span<const float> buffers,
                         const DrawRequest& request) const override;

  private:
    std::string data_text() const {
        if (!tokens_->folder) return "made-up pictures";
        return fmt::format(
            "{} pictures ({} held out)", tokens_->train.count(), tokens_->held_out.count());
    }
    Result<std::shared_ptr<TextToImageModel>> model_at(std::span<const float> parameters,
                                                       std::span<const float> buffers) const;
    torch::Tensor on_device(const torch::Tensor& tensor) const {
        return tensor.to(torch::Device(device_));
    }

    run::TaskConfig config_;
    TextToImageConfig sizes_;
    std::string device_;
    std::shared_ptr<const CaptionTokens> tokens_;
};

std::optional<run::TaskConfig> TextToImageTask::decided_config() const {
    if (!tokens_->folder || tokens_->codec->file().empty()) return std::nullopt;
    PicturesKeys keys = pictures_keys(config_);
    keys.codes_hash = tokens_->codec->hash().hex();
    if (keys.pictures_hash == undecided_pictures) keys.pictures_hash = tokens_->pictures_key;
    run::TaskConfig decided = config_;
    decided.set_section(run::section_from(pictures_section_name, std::move(keys)));
    return decided;
}

Result<std::unique_ptr<train::SampledModel>> TextToImageTask::learner(const PeerId& peer) const {
    const auto count = static_cast<std::uint32_t>(tokens_->train.count());
    auto order = std::make_shared<SampleOrder>(config_.seed, peer, count);
    torch_bridge::TorchParts parts;
    parts.make_model = [sizes = sizes_, seed = config_.seed] { return torch_model(sizes, seed); };
    parts.train_batch = [tokens = tokens_, order, noise = TokenNoise(sizes_)](
                            collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        const auto indices = order->indices(samples);
        TokenBatch chosen = tokens_of(tokens->train, {indices.begin(), indices.end()});
        torch::Tensor read = chosen.codes.clone();
        noise.spoil(*order, samples, chosen.captions, read);
        return batch_of(chosen, read);
    };
    parts.held_out_count = static_cast<std::uint64_t>(tokens_->held_out.count());
    parts.held_out_batch_samples_max = rows_at_once(sizes_);
    parts.held_out_batch =
        [tokens = tokens_](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        const auto chosen = tokens_of(tokens->held_out, numbers_from(samples.begin, samples.end));
        return batch_of(chosen, chosen.codes);
    };
    parts.device = device_;
    parts.set_precision(config_.precision);
    return torch_bridge::make_torch_learner(std::move(parts));
}

Result<std::shared_ptr<TextToImageModel>> TextToImageTask::model_at(
    std::span<const float> parameters, std::span<const float> buffers) const {
    auto model = std::make_shared<TextToImageModel>(sizes_, config_.seed);
    DEDLOC_TRY_VOID(
        torch_bridge::load_for_evaluation(model, torch::Device(device_), parameters, buffers));
    return model;
}

Result<std::vector<Measure>> TextToImageTask::measure(std::span<const float> parameters,
                                                      std::span<const float> buffers,
                                                      std::uint64_t samples_max) const {
    try {
        const torch::NoGradGuard none;
        DEDLOC_TRY(const auto model, model_at(parameters, buffers));
        auto count = static_cast<std::uint64_t>(tokens_->held_out.count());
        if (samples_max > 0) count = std::min(count, samples_max);
        double text = 0;
        double image = 0;
        for (std::uint64_t begin = 0; begin < count; begin += rows_at_once(sizes_)) {
            const auto some =
                tokens_of(tokens_->held_out,
                          numbers_from(begin, std::min(begin + rows_at_once(sizes_), count)));
            const auto losses = model->losses(on_device(some.captions), on_device(some.codes));
            text += losses.text.sum().item<double>();
            image += losses.image.sum().item<double>();
        }
        const auto samples = static_cast<double>(count);
        const double ignorance = (std::log(static_cast<double>(sizes_.text_tokens())) +
                                  7 * std::log(static_cast<double>(sizes_.image_vocabulary))) /
                                 8;
        return std::vector<Measure>{{"loss", (text + 7 * image) / (8 * samples)},
                                    {"text_loss", text / samples},
                                    {"image_loss", image / samples},
                                    {"ignorance_loss", ignorance},
                                    {"samples", samples}};
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("measuring", failure);
    }
}

std::string config_json(const TextToImageConfig& sizes, const ImageCodesConfig& codes) {
    const nlohmann::ordered_json json{{"model_type", "dedloc_text_to_image"},
                                      {"width", sizes.width},
                                      {"layers", sizes.layers},
                                      {"heads", sizes.heads},
                                      {"head_width", sizes.head_width},
                                      {"shared_layers", sizes.shared_layers},
                                      {"last_layer_apart", sizes.last_layer_apart},
                                      {"convolution_side", sizes.convolution_side},
                                      {"text_vocabulary", sizes.text_vocabulary},
                                      {"text_length", sizes.text_length},
                                      {"image_vocabulary", sizes.image_vocabulary},
                                      {"image_side", sizes.image_side},
                                      {"guidance", sizes.guidance},
                                      {"picture_side", codes.side},
                                      {"codes_width", codes.width}};
    return json.dump(2) + "\n";
}

Result<std::vector<std::string>> TextToImageTask::export_model(std::span<const float> parameters,
                                                               std::span<const float> buffers,
                                                               const std::string& directory) const {
    DEDLOC_TRY(const auto model, model_at(parameters, buffers));
    WeightsFile file;
    file.add_parameters(*model);
    const Bytes weights = file.encoded();
    const std::string config = config_json(sizes_, tokens_->codec->sizes());
    std::vector<text::NamedContent> files = {{"model.safetensors", base::as_text(weights)},
                                             {"config.json", config}};
    if (!tokens_->codec->file().empty())
        files.emplace_back("image_codes.safetensors", base::as_text(tokens_->codec->file()));
    return text::write_files(directory, files);
}

Result<std::vector<std::string>> TextToImageTask::sample_texts(std::uint64_t count) const {
    if (!tokens_->folder)
        return std::vector<std::string>(count > 0 ? 1 : 0,
                                        "(random numbers: --data says which folder has pictures)");
    std::vector<std::string> texts;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, tokens_->train_captions.size());
         ++i) {
        if (tokens_->codec->file().empty()) {
            texts.push_back(fmt::format("\"{}\"", tokens_->train_captions[i]));
            continue;
        }
        const auto codes = tokens_->train.codes.select(0, static_cast<std::int64_t>(i));
        std::vector<std::int32_t> numbers(
            codes.data_ptr<std::int32_t>(),
            codes.data_ptr<std::int32_t>() + std::min<std::int64_t>(codes.numel(), 16));
        texts.push_back(
            fmt::format("\"{}\": codes {} …", tokens_->train_captions[i], fmt::join(numbers, " ")));
    }
    return texts;
}

Error knows_no_word(const std::string& prompt) {
    return make_error(ErrorKind::bad_input,
                      "the prompt '{}' has no word that is in a training caption",
                      prompt.substr(0, 200));
}

class PictureGenerator final : public Generator {
  public:
    PictureGenerator(std::shared_ptr<TextToImageModel> model,
                     std::shared_ptr<const CaptionTokens> tokens,
                     const std::string& device)
        : model_(std::move(model)), tokens_(std::move(tokens)), device_(device) {}

    Result<std::uint64_t> prompt_tokens(const std::string& prompt) const override {
        const std::size_t all = words_of_caption(prompt).size();
        const std::size_t unknown = tokens_->codec->words().unknown(prompt).size();
        if (unknown == all) return knows_no_word(prompt);
        return std::uint64_t{all - unknown};
    }
    Result<Drawing> draw(const DrawRequest& request) override;

  private:
    Result<torch::Tensor> rows_of(const DrawRequest& request, Drawing& drawing) const;

    std::shared_ptr<TextToImageModel> model_;
    std::shared_ptr<const CaptionTokens> tokens_;
    torch::Device device_;
};

// A row for each picture that is wanted. bad_input: a prompt of which no word is known.
Result<torch::Tensor> PictureGenerator::rows_of(const DrawRequest& request,
                                                Drawing& drawing) const {
    const CaptionWords& words = tokens_->codec->words();
    std::vector<torch::Tensor> rows;
    for (const std::string& prompt : request.prompts) {
        const std::vector<std::string> all = words_of_caption(prompt);
        const std::vector<std::string> unknown = words.unknown(prompt);
        if (unknown.size() == all.size()) return knows_no_word(prompt);
        if (!unknown.empty())
            drawing.remarks.push_back(fmt::format(
                "'{}': the model has not met {}, and takes each of them for any other word",
                prompt,
                fmt::join(unknown, ", ")));
        const auto length = static_cast<std::size_t>(model_->config().text_length);
        if (all.size() > length)
            drawing.remarks.push_back(fmt::format(
                "'{}' has {} words; the model sees the first {}", prompt, all.size(), length));
        const auto row = torch::tensor(words.encode(prompt, length)).unsqueeze(0);
        rows.push_back(row.repeat({static_cast<std::int64_t>(request.count), 1}));
    }
    return torch::cat(rows);
}

Result<Drawing> PictureGenerator::draw(const DrawRequest& request) {
    try {
        const torch::NoGradGuard none;
        const double guidance = request.guidance.value_or(model_->config().guidance);
        DEDLOC_TRY_VOID(check_guidance(model_->config(), guidance));
        Drawing drawing;
        DEDLOC_TRY(const torch::Tensor captions, rows_of(request, drawing));
        const auto there = captions.to(device_);
        const torch::Tensor codes = sample_codes(*model_,
                                                 there,
                                                 {.top_k = request.top_k,
                                                  .temperature = request.temperature,
                                                  .guidance = guidance,
                                                  .seed = request.seed,
                                                  .goes_on = request.goes_on});
        if (codes.size(1) < model_->config().image_length())
            return make_error(ErrorKind::cancelled, "nobody waits for the pictures any more");
        const auto wanted = static_cast<std::int64_t>(request.count);
        const auto losses = model_->losses(there, codes.to(device_)).image.cpu().view({-1, wanted});
        // For each prompt the likeliest comes first.
        const auto order = losses.argsort(std::int64_t{1}, false) +
                           torch::arange(losses.size(0)).unsqueeze(1) * wanted;
        drawing.pictures = tokens_->codec->draw(codes.index_select(0, order.flatten()));
        return drawing;
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("drawing", failure);
    }
}

Result<std::unique_ptr<Generator>> TextToImageTask::generator(
    std::span<const float> parameters, std::span<const float> buffers) const {
    if (tokens_->codec->file().empty())
        return make_error(ErrorKind::not_found,
                          "the run's image codes are not on this machine: they lie in the folder "
                          "of a peer (files/), in what --publish copies, or at the run's peers");
    try {
        DEDLOC_TRY(auto model, model_at(parameters, buffers));
        return std::unique_ptr<Generator>(new PictureGenerator(std::move(model), tokens_, device_));
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("the model", failure);
    }
}

Result<Drawing> TextToImageTask::draw(std::span<const float> parameters,
                                      std::span<const float> buffers,
                                      const DrawRequest& request) const {
    DEDLOC_TRY(const auto model, generator(parameters, buffers));
    return model->draw(request);
}

}  // namespace

MemoryEstimate text_to_image_memory(const TextToImageConfig& sizes, std::uint64_t micro_batch) {
    constexpr std::uint64_t element = 4;
    const auto elements = static_cast<std::uint64_t>(sizes.parameters_count());
    const auto positions = static_cast<std::uint64_t>(sizes.sequence());
    const auto width = static_cast<std::uint64_t>(sizes.width);
    const auto heads = static_cast<std::uint64_t>(sizes.heads);
    const auto inner = heads * static_cast<std::uint64_t>(sizes.head_width);
    // Memory that libtorch keeps of a layer's two halves for the way back, with oneDNN's own
    // copies.
    const std::uint64_t layer =
        positions * (12 * width + 8 * inner + 24 * width + 5 * heads * positions);
    const auto kept = sizes.reversible ? 1 : static_cast<std::uint64_t>(sizes.layers);
    const std::uint64_t logits =
        3 * static_cast<std::uint64_t>(sizes.text_length * sizes.text_tokens() +
                                       sizes.image_length() * sizes.image_vocabulary);
    MemoryEstimate memory;
    memory.model = element * 3 * elements;
    memory.activations = element * micro_batch * (kept * layer + 6 * positions * width + logits);
    memory.program = 256u << 20;  // libtorch and its threads; measured
    // Sums that are handed in, the average, and parameters with two moments of 8 bits: of the
    // newest two steps (state/store.h), and of the one that is being computed; averages of steps
    // before, most of them in 8 bits.
    memory.collaboration =
        (2 * element + 3 * (element + 2)) * elements + replica::kept_averages_bytes(elements, 1.05);
    return memory;
}

Result<std::shared_ptr<const TrainingTask>> make_text_to_image(const run::TaskConfig& config,
                                                               const TaskOptions& options) {
    if (config.model != "transformer")
        return make_error(ErrorKind::bad_input,
                          "task.model: '{}' is not known; it is \"transformer\", and its sizes are "
                          "in [text_to_image]",
                          config.model);
    if (config.data != "captions")
        return make_error(ErrorKind::bad_input,
                          "task.data: '{}' is not known; it is \"captions\": a folder with "
                          "captions.jsonl, given with --data",
                          config.data);
    DEDLOC_TRY(const TextToImageConfig sizes, text_to_image_sizes(config));
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    try {
        DEDLOC_TRY(auto tokens, CaptionTokens::open(config, options));
        return std::shared_ptr<const TrainingTask>(
            std::make_shared<TextToImageTask>(config, sizes, std::move(device), std::move(tokens)));
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("preparing the pictures", failure);
    }
}

}  // namespace dedloc::tasks
