// Layers that are run backwards instead of being remembered: the memory of their activations is
// that of one layer, however many there are.
//
//   y1 = x1 + f(x2), y2 = x2 + g(y1);  back: x2 = y2 - g(y1), x1 = y1 - f(x2)
//
// f and g must be deterministic functions of their input (no dropout, no BatchNorm statistics).
//
// Source: Gomez et al. 1707.04585. Cost: one more forward pass. Thread: as libtorch's autograd.

#pragma once
#include <functional>
#include <vector>

#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

using Layer = std::function<torch::Tensor(const torch::Tensor&)>;
struct ReversibleBlock {
    Layer f;
    Layer g;
};

// Mean of both streams, which both begin as x. `blocks` outlive the backward pass. Gradients of
// what the layers use are added to its .grad by the backward pass, so not for
// torch::autograd::grad().
torch::Tensor run_reversible(const torch::Tensor& x, const std::vector<ReversibleBlock>& blocks);

// The same function of x, remembered by autograd.
torch::Tensor run_remembered(const torch::Tensor& x, const std::vector<ReversibleBlock>& blocks);

}  // namespace dedloc::tasks
