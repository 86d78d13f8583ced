#include "dedloc/tasks/moe_classifier/moe_classifier.h"

#include <fmt/format.h>
#include <numeric>

#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/torch_bridge/dense.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/remote_mixture.h"
#include "dedloc/torch_bridge/torch_expert.h"
#include "dedloc/torch_bridge/torch_learner.h"
#include "dedloc/train/node_mixture.h"

namespace dedloc::tasks {

namespace {

namespace nn = torch::nn;

constexpr const char* moe_model = "moe_mlp";
constexpr const char* moe_data = "fashion-mnist";
constexpr float grey_mean = 0.2860f;  // of the 60,000 training images, as fractions of 255
constexpr float grey_deviation = 0.3530f;

// Rows of 784 numbers of mean 0 and variance 1.
torch_bridge::TorchBatch rows_of_images(const LabelledImages& images,
                                        const std::vector<std::uint32_t>& indices) {
    const auto count = static_cast<std::int64_t>(indices.size());
    torch_bridge::TorchBatch batch{.inputs = torch::empty({count, image_pixels}),
                                   .targets = torch::empty({count}, torch::kInt64)};
    float* out = batch.inputs.data_ptr<float>();
    std::int64_t* labels = batch.targets.data_ptr<std::int64_t>();
    for (const std::uint32_t index : indices) {
        const std::uint8_t* grey = &images.pixels[std::size_t{index} * image_pixels];
        for (std::uint32_t i = 0; i < image_pixels; ++i)
            *out++ = (static_cast<float>(grey[i]) / 255.0f - grey_mean) / grey_deviation;
        *labels++ = images.labels[index];
    }
    return batch;
}

class MoeNetworkImpl : public nn::Module {
  public:
    MoeNetworkImpl(std::int64_t width, std::shared_ptr<torch_bridge::MixtureCalls> calls) {
        first_ = register_module("first", nn::Linear(image_pixels, width));
        mixture_ = register_module("mixture", torch_bridge::RemoteMixture(width, std::move(calls)));
        scale_ = register_parameter("norm_scale", torch::ones({width}));
        shift_ = register_parameter("norm_shift", torch::zeros({width}));
        last_ = register_module("last", nn::Linear(width, classes_count));
    }

    torch::Tensor forward(const torch::Tensor& images) {
        const torch::Tensor hidden =
            torch::relu(torch_bridge::dense(images, first_->weight, first_->bias));
        const torch::Tensor mixed = hidden + mixture_->forward(hidden);
        const torch::Tensor normal = torch::layer_norm(mixed, scale_.sizes(), scale_, shift_);
        return torch_bridge::dense(normal, last_->weight, last_->bias);
    }

  private:
    nn::Linear first_{nullptr};
    torch_bridge::RemoteMixture mixture_{nullptr};
    torch::Tensor scale_;
    torch::Tensor shift_;
    nn::Linear last_{nullptr};
};
TORCH_MODULE(MoeNetwork);

class MoeClassifier final : public TrainingTask {
  public:
    MoeClassifier(run::TaskConfig config,
                  experts::MixtureOptions mixture,
                  std::string device,
                  const collab::Node* node,
                  FashionMnist data)
        : config_(std::move(config)),
          mixture_(std::move(mixture)),
          device_(std::move(device)),
          node_(node),
          data_(std::make_shared<const FashionMnist>(std::move(data))) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override {
        auto order = std::make_shared<SampleOrder>(config_.seed, peer, data_->train.count);
        std::shared_ptr<torch_bridge::MixtureCalls> calls;
        if (node_) {
            const auto real = std::make_shared<train::NodeMixture>(*node_, mixture_);
            if (!calls_) calls_ = real;
            calls = real;
        } else {
            calls = std::make_shared<torch_bridge::NoExperts>(mixture_.grid);
        }
        torch_bridge::TorchParts parts;
        const auto width =
            static_cast<std::int64_t>(run::keys_of<MoeKeys>(config_, moe_section_name).width);
        parts.make_model = [seed = config_.seed, width, calls] {
            torch::manual_seed(seed);
            MoeNetwork network(width, calls);
            return torch_bridge::TorchModel{
                .module = network.ptr(), .forward = [network](const torch::Tensor& inputs) mutable {
                    return network->forward(inputs);
                }};
        };
        parts.train_batch = [data = data_, order](
                                collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            return rows_of_images(data->train, order->indices(samples));
        };
        parts.held_out_count = data_->test.count;
        parts.held_out_batch =
            [data = data_,
             node = node_](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
            if (!node) return experts_are_elsewhere();
            std::vector<std::uint32_t> indices(samples.size());
            std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(samples.begin));
            return rows_of_images(data->test, indices);
        };
        parts.loss = torch_bridge::classification_loss;
        parts.device = device_;
        return torch_bridge::make_torch_learner(std::move(parts));
    }

    std::string device() const override { return device_; }
    std::string description() const override {
        return fmt::format(
            "{} on {} with {} experts of the grid {} at other machines, each row "
            "asks {}; computed on {}",
            config_.model,
            config_.data,
            mixture_.grid.experts_count(),
            mixture_.grid.name,
            mixture_.best,
            device_);
    }
    std::vector<Measure> counts() const override {
        return calls_ ? measures_of(calls_->counts()) : std::vector<Measure>();
    }

  private:
    run::TaskConfig config_;
    experts::MixtureOptions mixture_;
    std::string device_;
    const collab::Node* node_;
    std::shared_ptr<const FashionMnist> data_;
    mutable std::shared_ptr<train::NodeMixture> calls_;  // of the first learner: the trainer's
};

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_moe_classifier(const run::TaskConfig& config,
                                                                const TaskOptions& options) {
    if (config.model != moe_model || config.data != moe_data)
        return make_error(ErrorKind::bad_input,
                          "task: the mixture-of-experts classifier is model = \"{}\" on data = "
                          "\"{}\", not '{}' on '{}'",
                          moe_model,
                          moe_data,
                          config.model,
                          config.data);
    DEDLOC_TRY(experts::MixtureOptions mixture, mixture_options(config));
    mixture.nobody_max = options.experts_timeout;
    DEDLOC_TRY(std::string device, torch_bridge::choose_device(options.device));
    torch_bridge::set_compute_threads(options.threads_count);
    const std::string directory =
        options.data_directory.empty() ? fashion_mnist_directory : options.data_directory;
    DEDLOC_TRY(FashionMnist data, load_fashion_mnist(directory));
    if (options.node) options.node->join_table();
    return std::shared_ptr<const TrainingTask>(std::make_shared<MoeClassifier>(
        config, std::move(mixture), std::move(device), options.node, std::move(data)));
}

Result<RunExperts> torch_experts(const run::TaskConfig& config, const TaskOptions& options) {
    const std::uint64_t width = run::keys_of<MoeKeys>(config, moe_section_name).width;
    torch_bridge::set_compute_threads(options.threads_count);
    return run_experts(
        config, width, torch_bridge::torch_expert_factory(expert_options(config, width)));
}

}  // namespace dedloc::tasks
