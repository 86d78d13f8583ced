// Networks that SwAV trains: a trunk, a projection head and prototypes.
//
//   resnet50   He et al. 1512.03385 (stride in the 3 × 3 convolutions), head 2048 → 2048 → 128,
//              3,000 prototypes: 28,354,752 parameters with three channels.
//   small      three convolutions with BatchNorm for pictures of 28 × 28 and smaller, head 128 →
//              128 → 128, 60 prototypes.
//
// Embeddings have length 1; prototypes are not normalised here: the optimizer brings their rows to
// length 1 after each step (optim::ParameterGroup::unit_rows). They begin as a linear layer does,
// as vissl's do. BatchNorm sees the crops of one resolution at a time, so the calls below go
// resolution by resolution.
//
// Thread: one at a time. Errors: libtorch's exceptions.

#pragma once
#include <string>
#include <vector>

#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

inline constexpr const char* prototypes_name = "prototypes";

class SwavModel : public torch::nn::Module {
  public:
    // `name`: find_swav_sizes() knows it.
    SwavModel(const std::string& name, std::int64_t channels, std::uint64_t seed);

    struct Output {
        torch::Tensor embeddings;  // [n, width], each of length 1
        torch::Tensor scores;      // [n, prototypes]
    };
    // Crops of one size.
    torch::Tensor features(const torch::Tensor& crops);  // [n, trunk's width], pooled
    torch::Tensor embed(const torch::Tensor& features);
    // Groups of crops, each of one resolution, in order.
    Output forward(const std::vector<torch::Tensor>& resolutions);

    const torch::Tensor& prototypes() const { return prototypes_; }

  private:
    torch::nn::Sequential trunk_{nullptr};
    torch::nn::Sequential head_{nullptr};
    torch::Tensor prototypes_;  // [prototypes, width]
};

}  // namespace dedloc::tasks
