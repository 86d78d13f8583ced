#include "dedloc/tasks/albert/albert_task.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dedloc/base/random.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/albert/albert_model.h"
#include "dedloc/tasks/albert/albert_section.h"
#include "dedloc/tasks/albert/albert_tuner.h"
#include "dedloc/tasks/albert/albert_weights.h"
#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/prefetch.h"
#include "dedloc/text/text_data.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/torch_expert.h"
#include "dedloc/torch_bridge/torch_learner.h"
#include "dedloc/train/node_mixture.h"

namespace dedloc::tasks {

namespace {

// Evaluation keeps no activations: what limits it are the scores of masked words.
std::uint64_t held_out_rows(std::uint64_t length) {
    constexpr std::uint64_t tokens = 4096;
    return std::max<std::uint64_t>(1, tokens / length);
}

// Seeds what thins out sample number `counter` of this peer.
class DropoutSeeds {
  public:
    DropoutSeeds(std::uint64_t seed, const PeerId& peer) {
        Bytes number;
        base::put_u64_be(number, seed);
        security::Sha256 hash;
        const Digest digest =
            hash.update("dedloc/albert-dropout/1").update(number).update(peer.bytes()).finish();
        base::ByteReader reader(digest.view());
        base_ = *reader.u64_be();
    }
    std::vector<std::uint64_t> of(collab::CounterRange samples) const {
        std::vector<std::uint64_t> seeds;
        for (std::uint64_t counter = samples.begin; counter < samples.end; ++counter)
            seeds.push_back(base_ ^ base::mix64(counter));
        return seeds;
    }

  private:
    std::uint64_t base_ = 0;
};

// The learner knows one tensor of inputs, one of targets, and what stays on the CPU.
torch_bridge::TorchBatch packed(const AlbertBatch& batch) {
    torch_bridge::TorchBatch result;
    result.inputs = torch::stack(
        {batch.input_ids, batch.token_type_ids, batch.attention_mask, batch.labels}, 1);
    result.targets = batch.sentence_order;
    if (batch.dropout_seeds.defined()) result.more.push_back(batch.dropout_seeds);
    return result;
}

AlbertBatch unpacked(const torch_bridge::TorchBatch& batch) {
    AlbertBatch result;
    result.input_ids = batch.inputs.select(1, 0);
    result.token_type_ids = batch.inputs.select(1, 1);
    result.attention_mask = batch.inputs.select(1, 2);
    result.labels = batch.inputs.select(1, 3).contiguous();
    result.sentence_order = batch.targets;
    if (!batch.more.empty()) result.dropout_seeds = batch.more.front();
    return result;
}

torch_bridge::TorchModel torch_model(const AlbertConfig& sizes,
                                     std::uint64_t seed,
                                     std::shared_ptr<torch_bridge::MixtureCalls> experts) {
    auto model = std::make_shared<AlbertModel>(sizes, seed, std::move(experts));
    torch_bridge::TorchModel result;
    result.module = model;
    result.loss = [model = model.get()](const torch_bridge::TorchBatch& batch) {
        const AlbertBatch albert = unpacked(batch);
        return albert_sample_loss(model->forward(albert), albert);
    };
    return result;
}

// Sums over held-out text.
struct Sums {
    double words_loss = 0;
    double words_right = 0;
    double words = 0;
    double order_loss = 0;
    double order_right = 0;
    double samples = 0;

    void add(const AlbertOutputs& outputs, const AlbertBatch& batch) {
        namespace functional = torch::nn::functional;
        const auto sum = functional::CrossEntropyFuncOptions().reduction(torch::kSum);
        const auto right = [](const torch::Tensor& scores, const torch::Tensor& answers) {
            return (scores.argmax(1) == answers).sum().item<double>();
        };
        words += static_cast<double>(outputs.word_labels.size(0));
        samples += static_cast<double>(batch.sentence_order.size(0));
        order_loss += functional::cross_entropy(outputs.order_logits, batch.sentence_order, sum)
                          .item<double>();
        order_right += right(outputs.order_logits, batch.sentence_order);
        if (outputs.word_labels.size(0) == 0) return;
        words_loss +=
            functional::cross_entropy(outputs.word_logits, outputs.word_labels, sum).item<double>();
        words_right += right(outputs.word_logits, outputs.word_labels);
    }

    std::vector<Measure> measures(const AlbertConfig& sizes) const {
        const double masked_loss = words_loss / std::max(words, 1.0);
        return {{"masked_loss", masked_loss},
                {"perplexity", std::exp(masked_loss)},
                {"masked_accuracy", words_right / std::max(words, 1.0)},
                {"order_loss", order_loss / samples},
                {"order_accuracy", order_right / samples},
                {"ignorance_loss", loss_of_ignorance(sizes)},
                {"masked_words", words},
                {"samples", samples}};
    }
};

// A model with experts at other machines has these.
struct ExpertsOfTask {
    std::optional<experts::MixtureOptions> mixture{};  // none: the model has no experts
    const collab::Node* node = nullptr;                // null: there is no run
};

class AlbertTask final : public TrainingTask {
  public:
    AlbertTask(run::TaskConfig config,
               AlbertConfig sizes,
               ExpertsOfTask experts,
               std::string device,
               std::shared_ptr<const text::TextData> data,
               std::shared_ptr<const text::SampleStream> held_out)
        : config_(std::move(config)),
          text_(text_keys(config_)),
          sizes_(sizes),
          experts_(std::move(experts)),
          device_(std::move(device)),
          data_(std::move(data)),
          held_out_(std::move(held_out)) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override;
    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format(
            "ALBERT with {} parameters (hidden {}, {} layers, {} pieces) on {}, computed on {} in "
            "{}",
            parameters_count(sizes_),
            sizes_.hidden,
            sizes_.layers,
            sizes_.vocabulary,
            data_->corpus().description(),
            device_,
            config_.precision);
    }
    std::optional<run::TaskConfig> decided_config() const override {
        TextKeys keys = text_;
        decide_text(*data_, keys);
        run::TaskConfig decided = config_;
        decided.set_section(run::section_from(text_section_name, std::move(keys)));
        return decided;
    }
    std::vector<SharedBytes> files() const override {
        const ByteView file = data_->tokenizer().file();
        return {SharedBytes(data_, file)};
    }
    Result<std::vector<Measure>> measure(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         std::uint64_t samples_max) const override;
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override;
    Result<std::vector<float>> read_weights(const std::string& folder) const override;
    Result<FineTuneScore> fine_tune(std::span<const float> parameters,
                                    const FineTuneInput& input) const override {
        DEDLOC_TRY(auto model, model_at(parameters, {}));
        return fine_tune_albert(std::move(model), data_->tokenizer(), input);
    }
    Result<std::vector<std::string>> sample_texts(std::uint64_t count) const override;
    std::vector<Measure> counts() const override {
        return calls_ ? measures_of(calls_->counts()) : std::vector<Measure>();
    }
    MemoryEstimate memory(std::uint64_t micro_batch) const override {
        const auto rows = static_cast<std::int64_t>(micro_batch);
        const auto columns = static_cast<std::int64_t>(text_.length);
        const auto masked =
            static_cast<std::int64_t>(text_.masked * static_cast<double>(rows * columns));
        const AlbertMemory estimate = memory_estimate(sizes_, rows, columns, masked);
        return {
            estimate.parameters, estimate.activations, estimate.collaboration, estimate.program};
    }

  private:
    Result<std::vector<std::string>> export_weights(const AlbertModel& model,
                                                    const std::string& directory) const {
        const Bytes weights = albert_safetensors(model);
        const text::NamedContent files[] = {
            {"model.safetensors", base::as_text(weights)},
            {"spiece.model", base::as_text(data_->tokenizer().file())}};
        return text::write_files(directory, files);
    }
    std::uint64_t held_out_count() const {
        return std::min(text_.held_out_samples, held_out_->samples_per_epoch());
    }
    Result<std::shared_ptr<AlbertModel>> model_at(std::span<const float> parameters,
                                                  std::span<const float> buffers) const;

    // Null: the model has no experts.
    std::shared_ptr<torch_bridge::MixtureCalls> calls_of_experts() const;

    run::TaskConfig config_;
    TextKeys text_;
    AlbertConfig sizes_;
    ExpertsOfTask experts_;
    mutable std::shared_ptr<train::NodeMixture> calls_;  // of the first learner
    std::string device_;
    std::shared_ptr<const text::TextData> data_;
    std::shared_ptr<const text::SampleStream> held_out_;
};

std::shared_ptr<torch_bridge::MixtureCalls> AlbertTask::calls_of_experts() const {
    if (!experts_.mixture) return nullptr;
    if (!experts_.node) return std::make_shared<torch_bridge::NoExperts>(experts_.mixture->grid);
    const auto calls = std::make_shared<train::NodeMixture>(*experts_.node, *experts_.mixture);
    if (!calls_) calls_ = calls;
    return calls;
}

Result<torch_bridge::TorchBatches> train_batches(const text::TextData& data,
                                                 std::uint64_t seed,
                                                 const PeerId& peer) {
    DEDLOC_TRY(auto stream, data.train(seed, peer));
    auto batches = std::make_shared<text::Prefetcher>(
        std::move(stream), text::Prefetcher::Options{.threads = 1, .batches_ahead = 4});
    const auto seeds = std::make_shared<const DropoutSeeds>(seed, peer);
    return torch_bridge::TorchBatches(
        [batches, seeds](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            DEDLOC_TRY(const text::MaskedBatch batch, batches->take({samples.begin, samples.end}));
            return packed(albert_batch(batch, seeds->of(samples)));
        });
}

Result<std::unique_ptr<train::SampledModel>> AlbertTask::learner(const PeerId& peer) const {
    torch_bridge::TorchParts parts;
    parts.make_model = [sizes = sizes_, seed = config_.seed, experts = calls_of_experts()] {
        return torch_model(sizes, seed, experts);
    };
    parts.self = peer;
    DEDLOC_TRY(parts.train_batch, train_batches(*data_, config_.seed, peer));
    if (!experts_.mixture)  // what experts say changes with time
        parts.batches_of = [data = data_, seed = config_.seed](
                               const PeerId& other) -> Result<torch_bridge::TorchBatches> {
            return train_batches(*data, seed, other);
        };
    parts.held_out_count = held_out_count();
    parts.held_out_batch_samples_max = held_out_rows(text_.length);
    parts.held_out_batch = [stream = held_out_, elsewhere = experts_.mixture && !experts_.node](
                               collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        if (elsewhere) return experts_are_elsewhere();
        DEDLOC_TRY(const text::MaskedBatch batch, stream->batch({samples.begin, samples.end}));
        return packed(albert_batch(batch, {}));
    };
    parts.device = device_;
    parts.set_precision(config_.precision);
    return torch_bridge::make_torch_learner(std::move(parts));
}

Result<std::shared_ptr<AlbertModel>> AlbertTask::model_at(std::span<const float> parameters,
                                                          std::span<const float> buffers) const {
    if (experts_.mixture && !experts_.node) return experts_are_elsewhere();
    auto model = std::make_shared<AlbertModel>(sizes_, config_.seed, calls_of_experts());
    DEDLOC_TRY_VOID(
        torch_bridge::load_for_evaluation(model, torch::Device(device_), parameters, buffers));
    return model;
}

Result<std::vector<Measure>> AlbertTask::measure(std::span<const float> parameters,
                                                 std::span<const float> buffers,
                                                 std::uint64_t samples_max) const {
    try {
        torch::NoGradGuard no_grad;
        DEDLOC_TRY(const auto model, model_at(parameters, buffers));
        std::uint64_t count = held_out_count();
        if (samples_max > 0) count = std::min(count, samples_max);
        const std::uint64_t rows = held_out_rows(text_.length);
        Sums sums;
        for (std::uint64_t begin = 0; begin < count; begin += rows) {
            DEDLOC_TRY(const text::MaskedBatch batch,
                       held_out_->batch({begin, std::min(begin + rows, count)}));
            const AlbertBatch albert = to_device(albert_batch(batch, {}), torch::Device(device_));
            sums.add(model->forward(albert), albert);
        }
        return sums.measures(sizes_);
    } catch (const std::exception& failure) {
        return make_error(
            ErrorKind::cannot_compute, "measuring: libtorch says: {}", failure.what());
    }
}

Result<std::vector<std::string>> AlbertTask::export_model(std::span<const float> parameters,
                                                          std::span<const float> buffers,
                                                          const std::string& directory) const {
    if (experts_.mixture) return experts_are_elsewhere();
    DEDLOC_TRY(const auto model, model_at(parameters, buffers));
    // Neither Hugging Face nor our script knows the other one: it goes as weights.
    if (sizes_.xl) return export_weights(*model, directory);
    DEDLOC_TRY(const Bytes script, albert_torchscript(*model));
    const Bytes weights = albert_safetensors(*model);
    const std::string config = albert_config_json(sizes_);
    const std::string tokenizer = albert_tokenizer_json(sizes_);
    const text::NamedContent files[] = {{"model.safetensors", base::as_text(weights)},
                                        {"config.json", config},
                                        {"model.pt", base::as_text(script)},
                                        {"tokenizer_config.json", tokenizer},
                                        {"spiece.model", base::as_text(data_->tokenizer().file())}};
    return text::write_files(directory, files);
}

Result<std::vector<float>> AlbertTask::read_weights(const std::string& folder) const {
    if (experts_.mixture) return experts_are_elsewhere();
    try {
        auto model = std::make_shared<AlbertModel>(sizes_, config_.seed, nullptr);
        DEDLOC_TRY_VOID(load_albert_folder(*model, folder));
        return torch_bridge::parameters_of(model);
    } catch (const std::exception& failure) {
        return make_error(
            ErrorKind::cannot_compute, "reading weights: libtorch says: {}", failure.what());
    }
}

Result<std::vector<std::string>> AlbertTask::sample_texts(std::uint64_t count) const {
    DEDLOC_TRY(const auto stream, data_->train(config_.seed, PeerId()));
    DEDLOC_TRY(const text::MaskedBatch batch, stream->batch({0, count}));
    std::vector<std::string> texts;
    for (std::int64_t row = 0; row < batch.rows; ++row)
        texts.push_back(stream->describe(batch, row));
    return texts;
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_albert(const run::TaskConfig& config,
                                                        const TaskOptions& options) {
    if (config.model != "albert" && config.model != "albert_xl")
        return make_error(ErrorKind::bad_input,
                          "task.model: '{}' is not known; it is \"albert\" or \"albert_xl\", and "
                          "its sizes are in [albert]",
                          config.model);
    // Before the data are read, which takes longer.
    DEDLOC_TRY(const AlbertConfig sizes, albert_sizes(config));
    const TextKeys keys = text_keys(config);
    DEDLOC_TRY(const text::TextDataConfig wanted, text_config(config));
    DEDLOC_TRY_VOID(check_text_places(config.data, options.data_directory));
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    text::TextDataOptions own;
    own.data_directory = options.data_directory;
    own.tokenizer_file = tokenizer_in_data(options);
    DEDLOC_TRY(auto data, text::TextData::open(wanted, own));
    DEDLOC_TRY(auto held_out, data->held_out());
    DEDLOC_TRY_VOID(
        check_held_out(held_out->samples_per_epoch(), keys.held_out_samples, keys.held_out));
    DEDLOC_TRY_VOID(
        check_vocabulary("albert.vocabulary", sizes.vocabulary, data->tokenizer().size()));
    // The run names it by its hash alone from now on, and it is in nobody's cache yet.
    if (!options.weights_directory.empty())
        DEDLOC_TRY_VOID(
            text::keep_tokenizer(data->tokenizer().file(), data->tokenizer().hash(), ""));
    ExpertsOfTask experts;
    if (config.kind == moe_albert_kind_name) {
        DEDLOC_TRY(experts.mixture, mixture_options(config));
        experts.mixture->nobody_max = options.experts_timeout;
        experts.node = options.node;
        if (options.node) options.node->join_table();
    }
    return std::shared_ptr<const TrainingTask>(std::make_shared<AlbertTask>(config,
                                                                            sizes,
                                                                            std::move(experts),
                                                                            std::move(device),
                                                                            std::move(data),
                                                                            std::move(held_out)));
}

Result<RunExperts> albert_torch_experts(const run::TaskConfig& config, const TaskOptions& options) {
    DEDLOC_TRY(const AlbertConfig sizes, albert_sizes(config));
    torch_bridge::set_compute_threads(options.threads_count);
    const auto width = static_cast<std::uint64_t>(sizes.hidden);
    return run_experts(
        config, width, torch_bridge::torch_expert_factory(expert_options(config, width)));
}

}  // namespace dedloc::tasks
