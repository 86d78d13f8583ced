#include "dedloc/tasks/language_model/language_model_task.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "dedloc/tasks/data_section.h"
#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/language_model/decoder_scorer.h"
#include "dedloc/tasks/language_model/decoder_writer.h"
#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/tasks/language_model/language_model_weights.h"
#include "dedloc/tasks/language_model/language_tokenizer_file.h"
#include "dedloc/tasks/language_model/lora_base_file.h"
#include "dedloc/tasks/language_model/lora_files.h"
#include "dedloc/tasks/shared_text.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/prefetch.h"
#include "dedloc/text/tokenizer_json.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch_error.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

namespace {

constexpr const char* vocabulary_key = "language_model.vocabulary";

// The scores of all words for each token limit an evaluation.
std::uint64_t rows_evaluated(const DecoderConfig& sizes, std::uint64_t length) {
    constexpr std::uint64_t scores = 1u << 26;  // 256 MiB
    const std::uint64_t of_row = length * static_cast<std::uint64_t>(sizes.vocabulary);
    return std::clamp<std::uint64_t>(scores / of_row, 1, 64);
}

// With its adapters, if it has some, beside the run's own frozen weights.
std::shared_ptr<Decoder> make_decoder(const DecoderConfig& sizes,
                                      std::uint64_t seed,
                                      const std::optional<LoraBase>& base) {
    auto model = std::make_shared<Decoder>(sizes, seed);
    if (base) model->share_frozen(*base->model);
    return model;
}

torch_bridge::TorchModel torch_decoder(std::shared_ptr<Decoder> model) {
    torch_bridge::TorchModel result;
    result.module = model;
    result.loss = [model = model.get()](const torch_bridge::TorchBatch& batch) {
        const DecoderBatch rows = unpacked(batch);
        return decoder_loss(model->logits(rows), rows.labels);
    };
    return result;
}

// Sums over held-out text.
struct TokenSums {
    double loss = 0;
    double right = 0;
    double tokens = 0;
    double bytes = 0;

    void add(const torch::Tensor& logits,
             const text::PackedBatch& batch,
             const text::LanguageTokenizer& tokenizer) {
        const torch::Tensor labels =
            torch::tensor(torch::ArrayRef<std::int64_t>(batch.labels)).view({batch.rows, -1});
        const auto sums = decoder_loss(logits, labels.to(logits.device()));
        const auto columns = static_cast<double>(batch.columns);
        loss += sums.sum.item<double>() * columns;
        right += sums.correct.item<double>() * columns;
        for (const std::int64_t label : batch.labels) {
            if (label == text::no_label) continue;
            ++tokens;
            bytes += static_cast<double>(tokenizer.bytes_of(static_cast<std::uint32_t>(label)));
        }
    }

    std::vector<Measure> measures(const DecoderConfig& sizes, double samples) const {
        const double mean = loss / std::max(tokens, 1.0);
        return {{"token_loss", mean},
                {"perplexity", std::exp(mean)},
                {"bits_per_byte", loss / std::log(2.0) / std::max(bytes, 1.0)},
                {"token_accuracy", right / std::max(tokens, 1.0)},
                {"ignorance_loss", loss_of_ignorance(sizes)},
                {"tokens", tokens},
                {"bytes", bytes},
                {"samples", samples}};
    }
};

class LanguageModelTask final : public TrainingTask {
  public:
    LanguageModelTask(run::TaskConfig config,
                      DecoderConfig sizes,
                      std::string device,
                      std::shared_ptr<const text::LanguageTokenizer> tokenizer,
                      std::optional<LoraBase> base,
                      std::shared_ptr<const text::LanguageData> data,
                      std::shared_ptr<const text::PackedStream> held_out,
                      std::optional<RunCatalogue> catalogue)
        : config_(std::move(config)),
          text_(packed_text_keys(config_)),
          sizes_(sizes),
          device_(std::move(device)),
          tokenizer_(std::move(tokenizer)),
          base_(std::move(base)),
          data_(std::move(data)),
          held_out_(std::move(held_out)),
          catalogue_(std::move(catalogue)) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override;
    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format(
            "{} with {} parameters{} (hidden {}, {} layers, {} tokens) on {}, computed on {} in {}",
            config_.model,
            parameters_count(sizes_),
            base_ ? fmt::format(" and adapters of {}, which are trained", trained_count(sizes_))
                  : std::string(),
            sizes_.hidden,
            sizes_.layers,
            sizes_.vocabulary,
            data_ ? data_->corpus().description() : "no text",
            device_,
            config_.precision);
    }
    std::optional<run::TaskConfig> decided_config() const override {
        run::TaskConfig decided = config_;
        PackedTextKeys keys = text_;
        keys.tokenizer_hash = tokenizer_->hash().hex();
        if (keys.corpus_hash == hosts_corpus && data_)
            keys.corpus_hash = corpus_key(data_->corpus());
        decided.set_section(run::section_from(text_section_name, std::move(keys)));
        if (base_) {
            DecoderConfig model = sizes_;
            model.lora.base_hash = base_->name.hex();
            decided.set_section(run::section_from(language_model_section_name, std::move(model)));
        }
        if (catalogue_) {
            DataKeys shared = data_keys(config_);
            shared.catalogue = catalogue_->name.hex();
            shared.bytes = catalogue_->catalogue->bytes();
            decided.set_section(run::section_from(data_section_name, std::move(shared)));
        }
        return decided;
    }
    std::vector<SharedBytes> files() const override {
        std::vector<SharedBytes> files{SharedBytes(tokenizer_, ByteView(tokenizer_->file()))};
        if (base_) files.push_back(base_->file);
        if (catalogue_) files.push_back(catalogue_->file);
        return files;
    }
    Result<std::shared_ptr<const data::OwnPieces>> own_pieces() const override;
    Result<std::vector<Measure>> measure(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         std::uint64_t samples_max) const override;
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override;
    Result<std::vector<std::string>> sample_texts(std::uint64_t count) const override;
    MemoryEstimate memory(std::uint64_t micro_batch) const override {
        const DecoderMemory estimate = memory_estimate(sizes_,
                                                       static_cast<std::int64_t>(micro_batch),
                                                       static_cast<std::int64_t>(text_.length));
        return {
            estimate.parameters, estimate.activations, estimate.collaboration, estimate.program};
    }
    Result<std::vector<float>> read_weights(const std::string& folder) const override;
    Result<std::unique_ptr<Generator>> generator(std::span<const float> parameters,
                                                 std::span<const float> buffers) const override;
    Result<Writing> write(std::span<const float> parameters,
                          std::span<const float> buffers,
                          const WriteRequest& request) const override;
    Result<std::vector<TextScore>> score(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         std::span<const ScoredText> texts) const override;

  private:
    std::uint64_t held_out_count() const {
        return held_out_ ? std::min(text_.held_out_samples, held_out_->samples_per_epoch()) : 0;
    }
    Result<std::shared_ptr<Decoder>> model_at(std::span<const float> parameters,
                                              std::span<const float> buffers) const;

    run::TaskConfig config_;
    PackedTextKeys text_;
    DecoderConfig sizes_;
    std::string device_;
    std::shared_ptr<const text::LanguageTokenizer> tokenizer_;
    std::optional<LoraBase> base_;                    // under adapters
    std::shared_ptr<const text::LanguageData> data_;  // null: only to look at the model
    std::shared_ptr<const text::PackedStream> held_out_;
    std::optional<RunCatalogue> catalogue_;  // of a run that shares its data
};

Result<std::shared_ptr<const data::OwnPieces>> LanguageModelTask::own_pieces() const {
    if (!shares_data(config_) || !data_ || data_->corpus().is_shared())
        return std::shared_ptr<const data::OwnPieces>();
    DEDLOC_TRY(const text::CorpusTable table, data_->table());
    DEDLOC_TRY(auto pieces, text_pieces(data_->shared_corpus(), table));
    DEDLOC_TRY_VOID(check_are_of_run(pieces, config_));
    return std::shared_ptr<const data::OwnPieces>(
        std::make_shared<data::OwnPieces>(std::move(pieces)));
}

Error no_text_here() {
    return make_error(ErrorKind::not_found, "there is no text here: the model was only looked at");
}

Result<torch_bridge::TorchBatches> packed_batches(const text::LanguageData& data,
                                                  std::uint64_t seed,
                                                  const PeerId& peer) {
    DEDLOC_TRY(auto stream, data.train(seed, peer));
    auto batches = std::make_shared<text::PrefetcherOf<text::PackedStream>>(
        std::move(stream), text::PrefetchOptions{.threads = 1, .batches_ahead = 4});
    return torch_bridge::TorchBatches(
        [batches](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            DEDLOC_TRY(const text::PackedBatch batch, batches->take({samples.begin, samples.end}));
            return packed(decoder_batch(batch));
        });
}

Result<std::unique_ptr<train::SampledModel>> LanguageModelTask::learner(const PeerId& peer) const {
    torch_bridge::TorchParts parts;
    parts.make_model = [sizes = sizes_, seed = config_.seed, base = base_] {
        return torch_decoder(make_decoder(sizes, seed, base));
    };
    parts.self = peer;
    parts.device = device_;
    parts.set_precision(config_.precision);
    if (!data_) {
        const auto nothing = [](collab::CounterRange) -> Result<torch_bridge::TorchBatch> {
            return no_text_here();
        };
        parts.train_batch = nothing;
        parts.held_out_batch = nothing;
        return torch_bridge::make_torch_learner(std::move(parts));
    }
    DEDLOC_TRY(parts.train_batch, packed_batches(*data_, config_.seed, peer));
    parts.batches_of = [data = data_, seed = config_.seed](
                           const PeerId& other) -> Result<torch_bridge::TorchBatches> {
        return packed_batches(*data, seed, other);
    };
    parts.held_out_count = held_out_count();
    parts.held_out_batch_samples_max = rows_evaluated(sizes_, text_.length);
    parts.held_out_batch =
        [stream = held_out_](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        DEDLOC_TRY(const text::PackedBatch batch, stream->batch({samples.begin, samples.end}));
        return packed(decoder_batch(batch));
    };
    return torch_bridge::make_torch_learner(std::move(parts));
}

Result<std::shared_ptr<Decoder>> LanguageModelTask::model_at(std::span<const float> parameters,
                                                             std::span<const float> buffers) const {
    auto model = make_decoder(sizes_, config_.seed, base_);
    DEDLOC_TRY_VOID(
        torch_bridge::load_for_evaluation(model, torch::Device(device_), parameters, buffers));
    return model;
}

Result<std::vector<Measure>> LanguageModelTask::measure(std::span<const float> parameters,
                                                        std::span<const float> buffers,
                                                        std::uint64_t samples_max) const {
    if (!held_out_) return no_text_here();
    try {
        const torch::NoGradGuard no_grad;
        DEDLOC_TRY(const auto model, model_at(parameters, buffers));
        std::uint64_t count = held_out_count();
        if (samples_max > 0) count = std::min(count, samples_max);
        const std::uint64_t rows = rows_evaluated(sizes_, text_.length);
        TokenSums sums;
        for (std::uint64_t begin = 0; begin < count; begin += rows) {
            DEDLOC_TRY(const text::PackedBatch batch,
                       held_out_->batch({begin, std::min(begin + rows, count)}));
            torch_bridge::TorchBatch there = packed(decoder_batch(batch));
            there.inputs = there.inputs.to(torch::Device(device_));
            sums.add(model->logits(unpacked(there)), batch, *tokenizer_);
        }
        return sums.measures(sizes_, static_cast<double>(count));
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("measuring", failure);
    }
}

// AutoTokenizer reads it beside the tokenizer itself.
std::string tokenizer_config(const text::LanguageTokenizer& tokenizer, std::int64_t positions) {
    const bool is_json = tokenizer.file_name() == text::tokenizer_json_name;
    const nlohmann::ordered_json out{
        {"tokenizer_class", is_json ? "PreTrainedTokenizerFast" : "AlbertTokenizer"},
        {"bos_token", tokenizer.piece(tokenizer.begin_id())},
        {"eos_token", tokenizer.piece(tokenizer.end_id())},
        {"clean_up_tokenization_spaces", false},
        {"model_max_length", positions}};
    return out.dump(2) + "\n";
}

std::string generation_config(const DecoderTokens& tokens) {
    const nlohmann::ordered_json out{{"bos_token_id", tokens.begin}, {"eos_token_id", tokens.end}};
    return out.dump(2) + "\n";
}

// In a folder of their own: `transformers` would put them on top of the weights beside them.
Result<std::vector<std::string>> write_adapter(const Decoder& model, const std::string& directory) {
    const std::string folder = directory + "/adapter";
    DEDLOC_TRY_VOID(text::make_folder(folder));
    const Bytes weights = adapter_safetensors(model);
    const std::string config = adapter_config(model.config());
    const text::NamedContent files[] = {{"adapter_model.safetensors", as_text(weights)},
                                        {"adapter_config.json", config}};
    DEDLOC_TRY(std::vector<std::string> names, text::write_files(folder, files));
    for (std::string& name : names) name = "adapter/" + name;
    return names;
}

Result<std::vector<std::string>> LanguageModelTask::export_model(
    std::span<const float> parameters,
    std::span<const float> buffers,
    const std::string& directory) const {
    DEDLOC_TRY(const auto model, model_at(parameters, buffers));
    const DecoderTokens tokens{.begin = tokenizer_->begin_id(), .end = tokenizer_->end_id()};
    std::vector<std::string> names;
    if (base_) {
        DEDLOC_TRY(names, write_adapter(*model, directory));
        model->merge_adapters();
    }
    const Bytes weights = decoder_safetensors(*model);
    const std::string config = decoder_json(sizes_, tokens);
    const std::string generation = generation_config(tokens);
    const std::string tokenizer = tokenizer_config(*tokenizer_, sizes_.positions);
    const text::NamedContent files[] = {{"model.safetensors", as_text(weights)},
                                        {"config.json", config},
                                        {"generation_config.json", generation},
                                        {tokenizer_->file_name(), as_text(tokenizer_->file())},
                                        {"tokenizer_config.json", tokenizer}};
    DEDLOC_TRY(const auto whole, text::write_files(directory, files));
    names.insert(names.begin(), whole.begin(), whole.end());
    return names;
}

Result<std::vector<std::string>> LanguageModelTask::sample_texts(std::uint64_t count) const {
    if (!data_) return std::vector<std::string>();
    DEDLOC_TRY(const auto stream, data_->train(config_.seed, PeerId()));
    DEDLOC_TRY(const text::PackedBatch batch, stream->batch({0, count}));
    std::vector<std::string> texts;
    for (std::int64_t row = 0; row < batch.rows; ++row)
        texts.push_back(stream->describe(batch, row));
    return texts;
}

Result<std::vector<float>> LanguageModelTask::read_weights(const std::string& folder) const {
    try {
        auto model = make_decoder(sizes_, config_.seed, base_);
        // Adapters begin beside weights that the base has already.
        if (!base_) DEDLOC_TRY_VOID(load_decoder_folder(*model, folder));
        return torch_bridge::parameters_of(model);
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("reading weights", failure);
    }
}

class TextGenerator final : public Generator {
  public:
    TextGenerator(std::shared_ptr<Decoder> model,
                  std::shared_ptr<const text::LanguageTokenizer> tokenizer)
        : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}

    std::uint64_t context() const override {
        return static_cast<std::uint64_t>(model_->config().positions);
    }
    Result<std::uint64_t> prompt_tokens(const std::string& prompt) const override {
        DEDLOC_TRY(const auto ids, ids_of_prompt(*tokenizer_, model_->config().positions, prompt));
        return ids.size() - 1;
    }
    Result<Writing> write(const WriteRequest& request) override {
        try {
            return write_text(*model_, *tokenizer_, request);
        } catch (const std::exception& failure) {
            return torch_bridge::libtorch_error("writing", failure);
        }
    }

  private:
    std::shared_ptr<Decoder> model_;
    std::shared_ptr<const text::LanguageTokenizer> tokenizer_;
};

Result<std::unique_ptr<Generator>> LanguageModelTask::generator(
    std::span<const float> parameters, std::span<const float> buffers) const {
    try {
        DEDLOC_TRY(auto model, model_at(parameters, buffers));
        return std::unique_ptr<Generator>(new TextGenerator(std::move(model), tokenizer_));
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("the model", failure);
    }
}

Result<Writing> LanguageModelTask::write(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         const WriteRequest& request) const {
    DEDLOC_TRY(const auto model, generator(parameters, buffers));
    return model->write(request);
}

Result<std::vector<TextScore>> LanguageModelTask::score(std::span<const float> parameters,
                                                        std::span<const float> buffers,
                                                        std::span<const ScoredText> texts) const {
    try {
        const torch::NoGradGuard no_grad;
        DEDLOC_TRY(const auto model, model_at(parameters, buffers));
        std::vector<TextScore> scores;
        for (const ScoredText& text : texts) {
            DEDLOC_TRY(const TextScore one, score_text(*model, *tokenizer_, text));
            scores.push_back(one);
        }
        return scores;
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("judging", failure);
    }
}

// The run's catalogue, which the host makes; none: the run shares nothing, or this machine has the
// text and nobody has asked for the catalogue yet.
Result<std::optional<RunCatalogue>> catalogue_for(const run::TaskConfig& config,
                                                  const text::LanguageData& data) {
    if (!shares_data(config)) return std::optional<RunCatalogue>();
    if (leaves_catalogue_open(config)) {
        DEDLOC_TRY(const text::CorpusTable table, data.table());
        DEDLOC_TRY(const auto pieces, text_pieces(data.shared_corpus(), table));
        DEDLOC_TRY(RunCatalogue made, keep_catalogue(pieces.catalogue));
        return std::optional<RunCatalogue>(std::move(made));
    }
    auto kept = kept_catalogue(config);
    if (!kept && data.corpus().is_shared()) return std::move(kept).error();
    return kept ? std::optional<RunCatalogue>(*std::move(kept)) : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_language_model(const run::TaskConfig& config,
                                                                const TaskOptions& options) {
    // Before the data are read, which takes longer.
    DEDLOC_TRY(const DecoderConfig sizes, decoder_sizes(config));
    DEDLOC_TRY(const text::LanguageDataConfig wanted, language_data_config(config));
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    DEDLOC_TRY(auto base, lora_base(sizes, options.weights_directory));
    // A look at a run that nobody hosts yet needs the tokenizer that this machine would make.
    const bool is_new =
        leaves_tokenizer_open(config) && language_tokenizer_here(config, options).empty();
    if (is_new) DEDLOC_TRY_VOID(check_trains_tokenizer(options));
    if (options.unprepared && !is_new) {
        DEDLOC_TRY(auto tokenizer, known_language_tokenizer(config, options));
        DEDLOC_TRY_VOID(check_vocabulary(vocabulary_key, sizes.vocabulary, tokenizer->size()));
        return std::shared_ptr<const TrainingTask>(
            std::make_shared<LanguageModelTask>(config,
                                                sizes,
                                                std::move(device),
                                                std::move(tokenizer),
                                                std::move(base),
                                                nullptr,
                                                nullptr,
                                                std::nullopt));
    }
    if (!options.shared) DEDLOC_TRY_VOID(check_text_places(config.data, options.data_directory));
    text::TextDataOptions own;
    own.data_directory = options.data_directory;
    own.tokenizer_file = language_tokenizer_here(config, options);
    own.shared = options.shared;
    // A tokenizer that is trained here would read all of the text.
    if (options.shared) DEDLOC_TRY_VOID(known_language_tokenizer(config, options));
    own.needs_all_blocks = options.needs_all_data;
    DEDLOC_TRY(auto data, text::LanguageData::open(wanted, own));
    DEDLOC_TRY(auto held_out, data->held_out());
    const PackedTextKeys keys = packed_text_keys(config);
    DEDLOC_TRY_VOID(
        check_held_out(held_out->samples_per_epoch(), keys.held_out_samples, keys.held_out));
    auto tokenizer = data->tokenizer();
    DEDLOC_TRY_VOID(check_vocabulary(vocabulary_key, sizes.vocabulary, tokenizer->size()));
    // A tokenizer from a folder is in nobody's cache yet, and the run names it by its hash alone.
    if (!own.tokenizer_file.empty())
        DEDLOC_TRY_VOID(text::keep_language_tokenizer(tokenizer->file(), tokenizer->hash(), ""));
    DEDLOC_TRY(auto catalogue, catalogue_for(config, *data));
    return std::shared_ptr<const TrainingTask>(
        std::make_shared<LanguageModelTask>(config,
                                            sizes,
                                            std::move(device),
                                            std::move(tokenizer),
                                            std::move(base),
                                            std::move(data),
                                            std::move(held_out),
                                            std::move(catalogue)));
}

}  // namespace dedloc::tasks
