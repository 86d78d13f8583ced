#include "dedloc/tasks/swav/swav_task.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dedloc/replica/kept_averages.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/tasks/module_weights.h"
#include "dedloc/tasks/picture_folder.h"
#include "dedloc/tasks/swav/swav_learner.h"
#include "dedloc/text/cache.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch_error.h"

namespace dedloc::tasks {
namespace {

constexpr std::size_t reading_threads_max = 8;  // that make crops for one GPU

// Fewer samples than this say nothing of a loss that spreads them over prototypes.
constexpr std::uint64_t balanced_samples_min = 8;

bool never() { return false; }

class SwavTask final : public TrainingTask {
  public:
    SwavTask(SwavSetup setup, std::string device)
        : setup_(std::move(setup)),
          sizes_(*find_swav_sizes(setup_.config.model)),
          device_(std::move(device)) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override;
    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format(
            "SwAV with {} ({} parameters, {} prototypes) on {}, computed on {} in {}",
            sizes_.name,
            sizes_.parameters_count(setup_.channels),
            sizes_.prototypes,
            setup_.pictures->description(),
            device_,
            setup_.config.precision);
    }
    std::optional<run::TaskConfig> decided_config() const override {
        if (setup_.keys.pictures != undecided_pictures || setup_.pictures->pictures_key().empty())
            return std::nullopt;
        SwavKeys keys = setup_.keys;
        keys.pictures = setup_.pictures->pictures_key();
        run::TaskConfig decided = setup_.config;
        decided.set_section(run::section_from(swav_section_name, std::move(keys)));
        return decided;
    }
    Result<std::vector<Measure>> measure(std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         std::uint64_t samples_max) const override;
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override;
    MemoryEstimate memory(std::uint64_t micro_batch) const override;

  private:
    Result<std::shared_ptr<SwavModel>> model_at(std::span<const float> parameters,
                                                std::span<const float> buffers) const;

    SwavSetup setup_;
    const SwavSizes& sizes_;
    std::string device_;
};

Result<std::unique_ptr<train::SampledModel>> SwavTask::learner(const PeerId& peer) const {
    torch_bridge::TorchParts parts;
    parts.make_model = [setup = setup_] { return swav_torch_model(setup); };
    parts.device = device_;
    parts.set_precision(setup_.config.precision);
    // As in the original, LARC and weight decay concern biases and BatchNorm, too.
    parts.shape_groups = [keys = setup_.keys,
                          width = sizes_.width](std::vector<optim::ParameterGroup>& groups) {
        for (optim::ParameterGroup& group : groups) {
            group.decay = true;
            if (group.name != prototypes_name) continue;
            group.unit_rows = static_cast<std::size_t>(width);
            group.frozen_until = keys.prototypes_frozen_until;
        }
    };
    const std::size_t threads =
        device_ == "cpu" ? 1
                         : std::min<std::size_t>(runtime::usable_processors(), reading_threads_max);
    const auto crops = std::make_shared<SwavCrops>(
        setup_.pictures, setup_.keys, setup_.channels, setup_.config.seed, peer, threads);
    parts.train_batch = [setup = setup_, crops](collab::CounterRange samples) {
        return swav_batch(setup, *crops, samples);
    };
    return torch_bridge::make_torch_learner(std::move(parts));
}

Result<std::shared_ptr<SwavModel>> SwavTask::model_at(std::span<const float> parameters,
                                                      std::span<const float> buffers) const {
    auto model =
        std::make_shared<SwavModel>(setup_.config.model, setup_.channels, setup_.config.seed);
    model->to(torch::Device(device_));
    DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model));
    if (flat.layout().parameters_count != parameters.size() ||
        flat.layout().buffers_count != buffers.size())
        return make_error(ErrorKind::bad_input,
                          "{} parameters and {} buffers do not fit the model {}",
                          parameters.size(),
                          buffers.size(),
                          setup_.config.model);
    flat.load(parameters, buffers);
    return model;
}

// On a few samples, but a batch of them: the loss as training sees it. On all: how good the
// features are, too.
Result<std::vector<Measure>> SwavTask::measure(std::span<const float> parameters,
                                               std::span<const float> buffers,
                                               std::uint64_t samples_max) const {
    try {
        DEDLOC_TRY(const auto model, model_at(parameters, buffers));
        const torch::NoGradGuard none;
        if (samples_max > 0) {
            model->train();
            const std::uint64_t samples = std::min<std::uint64_t>(
                std::max(samples_max, balanced_samples_min), setup_.pictures->held_out_count());
            DEDLOC_TRY(const double loss, held_out_loss(setup_, *model, samples, never));
            return std::vector<Measure>{
                {"loss", loss},
                {"ignorance_loss", std::log(static_cast<double>(sizes_.prototypes))},
                {"samples", static_cast<double>(samples)}};
        }
        const auto classes = static_cast<std::int64_t>(setup_.pictures->classes_count());
        if (classes < 2) return std::vector<Measure>();
        model->eval();
        DEDLOC_TRY(const EvaluationHalves halves, held_out_features(setup_, *model, never));
        const auto neighbours = static_cast<std::int64_t>(setup_.keys.neighbours);
        return std::vector<Measure>{
            {"neighbours_accuracy", neighbours_accuracy(halves, neighbours, classes)},
            {"linear_accuracy", linear_accuracy(halves, classes)},
            {"labelled_pictures", static_cast<double>(halves.bank.labels.size(0))}};
    } catch (const std::exception& failure) {
        return torch_bridge::libtorch_error("measuring the model", failure);
    }
}

Result<std::vector<std::string>> SwavTask::export_model(std::span<const float> parameters,
                                                        std::span<const float> buffers,
                                                        const std::string& directory) const {
    DEDLOC_TRY(const auto model, model_at(parameters, buffers));
    const std::string name = "model.safetensors";
    DEDLOC_TRY_VOID(
        text::write_file(directory + "/" + name,
                         base::as_text(module_weights(*model, "swav " + setup_.config.model))));
    return std::vector<std::string>(1, name);
}

// Estimated, not measured: ResNet-50 has 11.1 million convolution outputs for a picture of 224 ×
// 224, and libtorch keeps each once before BatchNorm and once behind the ReLU: 1,770 bytes a pixel,
// to which a quarter is added for sums and oneDNN's copies. The small model has 15,680 outputs for
// 28 × 28: 160 bytes, and such small layers more copies.
MemoryEstimate SwavTask::memory(std::uint64_t micro_batch) const {
    const bool small = sizes_.features == 128;
    const double bytes_a_pixel = small ? 400 : 2200;
    const SwavKeys& keys = setup_.keys;
    const std::uint64_t pixels = keys.large_crops * keys.large_side * keys.large_side +
                                 keys.small_crops * keys.small_side * keys.small_side;
    const std::uint64_t parameters = sizes_.parameters_count(setup_.channels);
    MemoryEstimate estimate;
    estimate.model = 3 * sizeof(float) * parameters;  // with gradients and their sums
    estimate.activations =
        static_cast<std::uint64_t>(bytes_a_pixel * static_cast<double>(micro_batch * pixels));
    // Two states of parameters and momentum, the contribution and the average.
    estimate.collaboration = 6 * sizeof(float) * parameters + replica::kept_averages_usual;
    estimate.program = std::uint64_t{300} << 20;
    return estimate;
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_swav(const run::TaskConfig& config,
                                                      const TaskOptions& options) {
    DEDLOC_TRY_VOID(check_swav(config));
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    SwavSetup setup{.config = config, .keys = swav_keys(config), .channels = swav_channels(config)};
    DEDLOC_TRY(setup.pictures, open_swav_pictures(config, options));
    return std::shared_ptr<const TrainingTask>(
        std::make_shared<SwavTask>(std::move(setup), std::move(device)));
}

}  // namespace dedloc::tasks
