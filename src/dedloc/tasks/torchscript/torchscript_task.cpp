#include "dedloc/tasks/torchscript/torchscript_task.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "dedloc/security/hash.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/torchscript/script_data.h"
#include "dedloc/tasks/torchscript/script_file.h"
#include "dedloc/tasks/torchscript/script_graph.h"
#include "dedloc/tasks/torchscript/script_module.h"
#include "dedloc/tasks/torchscript/torchscript_section.h"
#include "dedloc/text/cache.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::tasks {

namespace {

constexpr std::uint32_t held_out_part = 20;           // of the data, where the run file names none
constexpr std::uint32_t held_out_max = 10'000;        // samples of an evaluation
constexpr std::uint64_t batch_values_max = 1u << 24;  // of one evaluated batch's inputs

using ByteTable = std::array<float, 256>;

ByteTable byte_table(const TorchScriptKeys& keys) {
    const float scale = 1.0f / (255.0f * static_cast<float>(keys.deviation));
    const float shift = -static_cast<float>(keys.mean) / static_cast<float>(keys.deviation);
    ByteTable table{};
    for (std::size_t level = 0; level < table.size(); ++level)
        table[level] = static_cast<float>(level) * scale + shift;
    return table;
}

// Samples of either kind: those to train on, or those that are held out.
struct Samples {
    std::shared_ptr<const ScriptData> data;
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
};

torch::Tensor tensor_for(const ScriptPart& part, std::int64_t count) {
    std::vector<std::int64_t> shape(1, count);
    shape.insert(shape.end(), part.shape.begin(), part.shape.end());
    const auto type = part.element == ScriptElement::byte   ? torch::kUInt8
                      : part.element == ScriptElement::fp32 ? torch::kFloat32
                                                            : torch::kInt64;
    return torch::empty(shape, type);
}

std::span<std::uint8_t> row_of(const torch::Tensor& tensor, const ScriptPart& part, std::size_t i) {
    const std::size_t bytes = part.bytes();
    return {static_cast<std::uint8_t*>(tensor.data_ptr()) + i * bytes, bytes};
}

torch::Tensor as_numbers(const torch::Tensor& bytes, const ByteTable& table) {
    torch::Tensor out = torch::empty(bytes.sizes(), torch::kFloat32);
    const auto* from = bytes.data_ptr<std::uint8_t>();
    std::transform(from, from + bytes.numel(), out.data_ptr<float>(), [&](std::uint8_t b) {
        return table[b];
    });
    return out;
}

Result<torch_bridge::TorchBatch> batch_of(const ScriptData& data,
                                          const std::vector<std::uint32_t>& indices,
                                          const ByteTable& table) {
    const auto count = static_cast<std::int64_t>(indices.size());
    torch_bridge::TorchBatch batch{.inputs = tensor_for(data.inputs(), count),
                                   .targets = tensor_for(data.targets(), count)};
    for (std::size_t i = 0; i < indices.size(); ++i) {
        DEDLOC_TRY_VOID(data.read(indices[i],
                                  row_of(batch.inputs, data.inputs(), i),
                                  row_of(batch.targets, data.targets(), i)));
    }
    if (data.inputs().element == ScriptElement::byte)
        batch.inputs = as_numbers(batch.inputs, table);
    return batch;
}

// The seed that a sample's random operators draw from.
std::uint64_t seed_of_samples(std::uint64_t seed, const PeerId& peer, std::uint64_t first) {
    Bytes bytes = base::to_bytes(peer.bytes());
    base::put_u64_be(bytes, seed);
    base::put_u64_be(bytes, first);
    return *base::ByteReader(security::sha256(bytes).view()).u64_be();
}

class TorchScriptTask final : public TrainingTask {
  public:
    TorchScriptTask(
        run::TaskConfig config, std::string device, Bytes file, Samples train, Samples held_out)
        : config_(std::move(config)),
          device_(std::move(device)),
          file_(std::make_shared<const Bytes>(std::move(file))),
          table_(byte_table(torchscript_keys(config_))),
          train_(std::move(train)),
          held_out_(std::move(held_out)) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override {
        auto order = std::make_shared<SampleOrder>(config_.seed, peer, train_.count);
        torch_bridge::TorchParts parts;
        parts.make_model = [file = file_] {
            Result<torch_bridge::TorchModel> model = load_script_model(*file);
            DEDLOC_CHECK(model, "the file was loaded before: {}", model.error().message());
            return *std::move(model);
        };
        parts.train_batch = [samples = train_, order, peer, seed = config_.seed, table = table_](
                                collab::CounterRange range) {
            torch::manual_seed(seed_of_samples(seed, peer, range.begin));
            return batch_of(*samples.data, order->indices(range), table);
        };
        parts.held_out_count = std::min(held_out_.count, held_out_max);
        parts.held_out_batch = [samples = held_out_, table = table_](collab::CounterRange range) {
            std::vector<std::uint32_t> indices(range.size());
            std::iota(indices.begin(),
                      indices.end(),
                      samples.begin + static_cast<std::uint32_t>(range.begin));
            return batch_of(*samples.data, indices, table);
        };
        parts.held_out_batch_samples_max = std::clamp<std::uint64_t>(
            batch_values_max / train_.data->inputs().count(), 1, torch_bridge::held_out_batch_max);
        parts.device = device_;
        parts.set_precision(config_.precision);
        return torch_bridge::make_torch_learner(std::move(parts));
    }

    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format("{} ({} bytes) on {} ({} samples, {} held out), computed on {} in {}",
                           config_.model,
                           file_->size(),
                           config_.data,
                           train_.count,
                           held_out_.count,
                           device_,
                           config_.precision);
    }
    std::optional<run::TaskConfig> decided_config() const override {
        TorchScriptKeys keys = torchscript_keys(config_);
        keys.model_hash = security::sha256(*file_).hex();
        run::TaskConfig decided = config_;
        decided.set_section(run::section_from(torchscript_section_name, std::move(keys)));
        return decided;
    }
    std::vector<SharedBytes> files() const override {
        return {SharedBytes(file_, ByteView(*file_))};
    }
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override {
        DEDLOC_TRY(const torch_bridge::TorchModel model, load_script_model(*file_));
        DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model.module));
        if (flat.layout().parameters_count != parameters.size() ||
            flat.layout().buffers_count != buffers.size())
            return make_error(ErrorKind::bad_input,
                              "{} parameters and {} buffers do not fit the model {}",
                              parameters.size(),
                              buffers.size(),
                              config_.model);
        flat.load(parameters, buffers);
        model.module->eval();
        DEDLOC_TRY(const Bytes written, write_script_model(model));
        const std::string name = "model.pt";
        DEDLOC_TRY_VOID(text::write_file(directory + "/" + name, base::as_text(written)));
        return std::vector<std::string>(1, name);
    }

  private:
    run::TaskConfig config_;
    std::string device_;
    std::shared_ptr<const Bytes> file_;
    ByteTable table_;
    Samples train_;
    Samples held_out_;
};

Result<std::pair<Samples, Samples>> open_samples(const run::TaskConfig& config,
                                                 const TaskOptions& options) {
    const TorchScriptKeys keys = torchscript_keys(config);
    const ScriptDataOptions own{.folder = options.data_directory,
                                .picture_side = static_cast<std::uint32_t>(keys.picture_side),
                                .text_length = static_cast<std::uint32_t>(keys.text_length)};
    DEDLOC_TRY(auto train, open_script_data(config.data, own));
    Samples all{.data = train, .begin = 0, .count = train->count()};
    if (keys.held_out == no_script_word) {
        const std::uint32_t held_out = all.count / held_out_part;
        if (held_out == 0)
            return make_error(ErrorKind::bad_input,
                              "task.data: {} samples are too few to hold any out; say "
                              "torchscript.held_out",
                              all.count);
        all.count -= held_out;
        return std::pair(all, Samples{.data = train, .begin = all.count, .count = held_out});
    }
    DEDLOC_TRY(auto other, open_script_data(keys.held_out, own));
    if (other->inputs().shape != train->inputs().shape ||
        other->inputs().element != train->inputs().element ||
        other->targets().shape != train->targets().shape ||
        other->targets().element != train->targets().element)
        return make_error(ErrorKind::bad_input,
                          "torchscript.held_out: its samples have another shape than task.data's");
    const std::uint32_t count = other->count();
    return std::pair(all, Samples{.data = std::move(other), .begin = 0, .count = count});
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_torchscript(const run::TaskConfig& config,
                                                             const TaskOptions& options) {
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    DEDLOC_TRY(Bytes file, find_script_file(config, options));
    DEDLOC_TRY_VOID(check_script_archive(file));
    DEDLOC_TRY_VOID(load_script_model(file));
    DEDLOC_TRY(auto samples, open_samples(config, options));
    return std::shared_ptr<const TrainingTask>(
        std::make_shared<TorchScriptTask>(config,
                                          std::move(device),
                                          std::move(file),
                                          std::move(samples.first),
                                          std::move(samples.second)));
}

}  // namespace dedloc::tasks
