#include "dedloc/tasks/swav/swav_models.h"

#include <cmath>
#include <torch/nn.h>

#include "dedloc/base/check.h"
#include "dedloc/tasks/swav/swav_section.h"
#include "dedloc/torch_bridge/dense.h"

namespace dedloc::tasks {
namespace {

namespace nn = torch::nn;

// A linear layer through torch_bridge::dense.
class DenseImpl : public nn::Module {
  public:
    DenseImpl(std::int64_t from, std::int64_t to) {
        const double bound = 1 / std::sqrt(static_cast<double>(from));
        weight = register_parameter("weight", torch::empty({to, from}).uniform_(-bound, bound));
        bias = register_parameter("bias", torch::empty({to}).uniform_(-bound, bound));
    }
    torch::Tensor forward(const torch::Tensor& x) { return torch_bridge::dense(x, weight, bias); }

    torch::Tensor weight;
    torch::Tensor bias;
};
TORCH_MODULE(Dense);

nn::Conv2d conv(std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t stride = 1) {
    return nn::Conv2d(
        nn::Conv2dOptions(from, to, side).stride(stride).padding(side / 2).bias(false));
}

class BottleneckImpl : public nn::Module {
  public:
    BottleneckImpl(std::int64_t from, std::int64_t inner, std::int64_t stride) {
        const std::int64_t to = 4 * inner;
        path_ = register_module("path",
                                nn::Sequential(conv(from, inner, 1),
                                               nn::BatchNorm2d(inner),
                                               nn::ReLU(),
                                               conv(inner, inner, 3, stride),
                                               nn::BatchNorm2d(inner),
                                               nn::ReLU(),
                                               conv(inner, to, 1),
                                               nn::BatchNorm2d(to)));
        if (from != to || stride != 1)
            shortcut_ = register_module(
                "shortcut", nn::Sequential(conv(from, to, 1, stride), nn::BatchNorm2d(to)));
    }
    torch::Tensor forward(const torch::Tensor& x) {
        const auto beside = shortcut_.is_empty() ? x : shortcut_->forward(x);
        return torch::relu(path_->forward(x) + beside);
    }

  private:
    nn::Sequential path_{nullptr};
    nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(Bottleneck);

nn::Sequential resnet50(std::int64_t channels) {
    nn::Sequential trunk(conv(channels, 64, 7, 2),
                         nn::BatchNorm2d(64),
                         nn::ReLU(),
                         nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
    std::int64_t from = 64;
    const std::int64_t blocks[] = {3, 4, 6, 3};
    std::int64_t inner = 64;
    for (const std::int64_t count : blocks) {
        for (std::int64_t i = 0; i < count; ++i) {
            trunk->push_back(Bottleneck(from, inner, i == 0 && inner > 64 ? 2 : 1));
            from = 4 * inner;
        }
        inner *= 2;
    }
    return trunk;
}

nn::Sequential small_trunk(std::int64_t channels) {
    return nn::Sequential(conv(channels, 32, 3, 2),
                          nn::BatchNorm2d(32),
                          nn::ReLU(),
                          conv(32, 64, 3, 2),
                          nn::BatchNorm2d(64),
                          nn::ReLU(),
                          conv(64, 128, 3),
                          nn::BatchNorm2d(128),
                          nn::ReLU());
}

nn::Sequential trunk_of(const SwavSizes& sizes, std::int64_t channels) {
    return std::string_view(sizes.name) == "small" ? small_trunk(channels) : resnet50(channels);
}

}  // namespace

SwavModel::SwavModel(const std::string& name, std::int64_t channels, std::uint64_t seed) {
    torch::manual_seed(seed);
    const SwavSizes* sizes = find_swav_sizes(name);
    DEDLOC_CHECK(sizes, "no model {}", name);
    const auto hidden = static_cast<std::int64_t>(sizes->hidden);
    const auto width = static_cast<std::int64_t>(sizes->width);
    trunk_ = register_module("trunk", trunk_of(*sizes, channels));
    head_ =
        register_module("head",
                        nn::Sequential(Dense(static_cast<std::int64_t>(sizes->features), hidden),
                                       nn::BatchNorm1d(hidden),
                                       nn::ReLU(),
                                       Dense(hidden, width)));
    // So short that the first predictions are nearly equal: the loss starts at ln(prototypes). The
    // first update makes them unit vectors.
    const double bound = 0.5 / std::sqrt(static_cast<double>(width));
    const auto start =
        torch::empty({static_cast<std::int64_t>(sizes->prototypes), width}).uniform_(-bound, bound);
    prototypes_ = register_parameter(prototypes_name, start);
    const torch::NoGradGuard none;
    for (const auto& module : trunk_->modules())
        if (auto* layer = module->as<nn::Conv2d>())
            nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
}

torch::Tensor SwavModel::features(const torch::Tensor& crops) {
    return trunk_->forward(crops).mean({2, 3});
}

torch::Tensor SwavModel::embed(const torch::Tensor& features) {
    namespace F = nn::functional;
    return F::normalize(head_->forward(features), F::NormalizeFuncOptions().dim(1));
}

SwavModel::Output SwavModel::forward(const std::vector<torch::Tensor>& resolutions) {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& crops : resolutions) all.push_back(features(crops));
    const auto embeddings = embed(torch::cat(all));
    return {embeddings, torch_bridge::dense(embeddings, prototypes_, {})};
}

}  // namespace dedloc::tasks
