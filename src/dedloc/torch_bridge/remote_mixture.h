// RemoteMixture: a layer of a libtorch model whose experts live on other machines.
//
//   torch_bridge::RemoteMixture layer(width, calls);       // e.g. of a NodeMixture
//   torch::Tensor outputs = layer->forward(inputs);        // [rows, width] -> [rows, width]
//
// The gate is one linear layer with an output for each coordinate of the grid; it belongs to the
// model, its gradients are the model's. The experts belong to their servers, which update them when
// the backward pass arrives. A row that too few experts answered is zeros, and its gradients are:
// add the layer's inputs to its outputs where that must not end the signal. When no row at all was
// answered the outputs are NaN, so that whoever accumulates leaves the micro-batch out.
//
// Each forward pass under gradients must be followed by at most one backward pass. Evaluation
// (no gradients) calls the experts forward only.
//
// Cost: two blocking round trips a pass, bounded by experts::MixtureOptions.
// Thread: one at a time, never the network thread. Errors: std::runtime_error when the node stops.

#pragma once
#include <memory>

#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/train/mixture_calls.h"

namespace dedloc::torch_bridge {

using train::MixtureCalls;
using train::NoExperts;

class RemoteMixtureImpl : public torch::nn::Module {
  public:
    RemoteMixtureImpl(std::int64_t width, std::shared_ptr<MixtureCalls> calls);
    torch::Tensor forward(const torch::Tensor& inputs);

    torch::nn::Linear gate{nullptr};  // width -> the sum of the grid's sizes

  private:
    std::shared_ptr<MixtureCalls> calls_;
};
TORCH_MODULE(RemoteMixture);

}  // namespace dedloc::torch_bridge
