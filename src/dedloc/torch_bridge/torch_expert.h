// TorchFfnExpert: hivemind's "ffn" block on libtorch, with a deterministic optimizer.
//
// The same numbers as experts::FfnExpert but for rounding: the same initial parameters for a name,
// the same order of the parameters, the same sections in a snapshot, so that servers with and
// without libtorch take over from each other. Dense layers are computed by oneDNN (dense.h), on
// the CPU.
//
// Cost: 12 · rows · width · hidden operations a backward call, in libtorch's threads. Parameters
// live in one flat vector, which the optimizer steps in place; a backward call needs as much again
// for the gradient. Thread: the server's device thread. Errors: cannot_compute (not finite, or an
// exception of libtorch: no memory); the expert is then as it was.

#pragma once
#include <string>
#include <vector>

#include "dedloc/experts/ffn_expert.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

class TorchFfnExpert final : public experts::ExpertBackend {
  public:
    TorchFfnExpert(const experts::ExpertUid& uid, experts::FfnOptions options);

    const experts::ExpertSchema& schema() const override { return schema_; }
    Result<std::vector<experts::Tensor>> forward(
        const std::vector<experts::Tensor>& inputs) override;
    Result<experts::ExpertGradient> gradient(
        const std::vector<experts::Tensor>& inputs,
        const std::vector<experts::Tensor>& output_gradients) override;
    void apply(std::span<const float> gradient) override;
    std::vector<state::Section> snapshot() const override;
    Ok load(const std::vector<state::Section>& sections, std::uint64_t updates) override;
    std::uint64_t updates() const override { return updates_; }
    std::uint64_t bytes() const override;

    const std::vector<float>& parameters() const { return parameters_; }

  private:
    Result<std::vector<float>> flat(const std::vector<torch::Tensor>& gradients) const;

    experts::FfnOptions options_;
    experts::ExpertSchema schema_;
    std::vector<optim::ParameterGroup> groups_;
    std::vector<float> parameters_;
    std::vector<torch::Tensor> views_;  // of parameters_, one a group
    std::vector<std::vector<float>> moments_;
    std::uint64_t updates_ = 0;
};

experts::ExpertFactory torch_expert_factory(experts::FfnOptions options);

// So many are computed for a batch of `rows`: a power of two, or three quarters of one.
std::int64_t rows_computed(std::int64_t rows);

// y = LayerNorm(x + W2 gelu(W1 x + b1) + b2), the six parameters in hivemind's order.
torch::Tensor ffn_block(const torch::Tensor& inputs, const std::vector<torch::Tensor>& parameters);

}  // namespace dedloc::torch_bridge
