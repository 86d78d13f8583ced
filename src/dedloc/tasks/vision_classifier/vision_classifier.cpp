#include "dedloc/tasks/vision_classifier/vision_classifier.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <numeric>

#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/module_weights.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/vision_classifier/vision_export.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/text/cache.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

namespace {

constexpr const char* plain_data = "fashion-mnist";
constexpr const char* flipped_data = "fashion-mnist+flip";

class VisionClassifier final : public TrainingTask {
  public:
    VisionClassifier(run::TaskConfig config, std::string device, FashionMnist data)
        : config_(std::move(config)),
          device_(std::move(device)),
          data_(std::make_shared<const FashionMnist>(std::move(data))) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override {
        torch_bridge::TorchParts parts;
        parts.make_model = [name = config_.model, seed = config_.seed] {
            return make_vision_model(name, seed);
        };
        parts.self = peer;
        parts.train_batch = batches(data_, config_, peer);
        parts.batches_of = [data = data_, config = config_](
                               const PeerId& other) -> Result<torch_bridge::TorchBatches> {
            return batches(data, config, other);
        };
        parts.held_out_count = data_->test.count;
        parts.held_out_batch =
            [data = data_](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            std::vector<std::uint32_t> indices(samples.size());
            std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(samples.begin));
            return image_batch(data->test, indices, {});
        };
        parts.loss = torch_bridge::classification_loss;
        parts.device = device_;
        parts.set_precision(config_.precision);
        return torch_bridge::make_torch_learner(std::move(parts));
    }

    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format("{} on {} ({} training images, {} test images), computed on {} in {}",
                           config_.model,
                           config_.data,
                           data_->train.count,
                           data_->test.count,
                           device_,
                           config_.precision);
    }
    Result<std::vector<std::string>> export_model(std::span<const float> parameters,
                                                  std::span<const float> buffers,
                                                  const std::string& directory) const override {
        const torch_bridge::TorchModel model = make_vision_model(config_.model, config_.seed);
        DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model.module));
        if (flat.layout().parameters_count != parameters.size() ||
            flat.layout().buffers_count != buffers.size())
            return make_error(ErrorKind::bad_input,
                              "{} parameters and {} buffers do not fit the model {}",
                              parameters.size(),
                              buffers.size(),
                              config_.model);
        flat.load(parameters, buffers);
        DEDLOC_TRY(const Bytes script, vision_torchscript(*model.module));
        const Bytes weights = module_weights(*model.module, config_.model);
        const std::string words = vision_config_json(*model.module, config_.model);
        const text::NamedContent files[] = {{"model.safetensors", base::as_text(weights)},
                                            {"config.json", words},
                                            {"model.pt", base::as_text(script)}};
        return text::write_files(directory, files);
    }

  private:
    static torch_bridge::TorchBatches batches(std::shared_ptr<const FashionMnist> data,
                                              const run::TaskConfig& config,
                                              const PeerId& peer) {
        auto order = std::make_shared<SampleOrder>(config.seed, peer, data->train.count);
        return [data = std::move(data), order, flips = config.data == flipped_data](
                   collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            std::vector<std::uint8_t> flip;
            for (std::uint64_t i = samples.begin; flips && i < samples.end; ++i) {
                flip.push_back(order->coin(i) ? 1 : 0);
            }
            return image_batch(data->train, order->indices(samples), flip);
        };
    }

    run::TaskConfig config_;
    std::string device_;
    std::shared_ptr<const FashionMnist> data_;
};

Result<void> expect_known(const char* field,
                          const std::string& value,
                          const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), value) != known.end()) return {};
    return make_error(ErrorKind::bad_input,
                      "{}: the vision classifier has no '{}'; it knows {}",
                      field,
                      value,
                      fmt::join(known, ", "));
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_vision_classifier(const run::TaskConfig& config,
                                                                   const TaskOptions& options) {
    DEDLOC_TRY_VOID(expect_known("task.model", config.model, vision_models()));
    DEDLOC_TRY_VOID(expect_known("task.data", config.data, {plain_data, flipped_data}));
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    const std::string directory =
        options.data_directory.empty() ? fashion_mnist_directory : options.data_directory;
    DEDLOC_TRY(FashionMnist data, load_fashion_mnist(directory));
    return std::shared_ptr<const TrainingTask>(
        std::make_shared<VisionClassifier>(config, std::move(device), std::move(data)));
}

}  // namespace dedloc::tasks
