// FfnExpert: hivemind's "ffn" block in plain loops, with a deterministic optimizer.
//
//   y = LayerNorm(x + W2 gelu(W1 x + b1) + b2),  gelu by tanh,  epsilon 1e-12
//
// Parameters in the order of hivemind's module: ffn.weight [hidden, width], ffn.bias,
// ffn_output.weight [width, hidden], ffn_output.bias, layer_norm.weight, layer_norm.bias.
// For servers without libtorch, the simulator, and as what libtorch's is compared with.
//
// Cost: 12 · rows · width · hidden operations a backward call, in one thread.

#pragma once
#include <span>

#include "dedloc/experts/backend.h"
#include "dedloc/optim/optimizer.h"

namespace dedloc::experts {

struct FfnOptions {
    std::size_t width = 16;
    std::size_t hidden = 0;  // 0: 4 · width
    optim::OptimizerConfig optimizer{};
    std::uint64_t seed = 0;  // of the initial parameters, with the expert's name
};

class FfnExpert final : public ExpertBackend {
  public:
    FfnExpert(const ExpertUid& uid, FfnOptions options);

    const ExpertSchema& schema() const override { return schema_; }
    Result<std::vector<Tensor>> forward(const std::vector<Tensor>& inputs) override;
    Result<ExpertGradient> gradient(const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& output_gradients) override;
    void apply(std::span<const float> gradient) override;
    std::vector<state::Section> snapshot() const override;
    Ok load(const std::vector<state::Section>& sections, std::uint64_t updates) override;
    std::uint64_t updates() const override { return updates_; }
    std::uint64_t bytes() const override;

    std::span<const float> parameters() const { return parameters_; }
    std::vector<float> take_parameters() && { return std::move(parameters_); }
    const std::vector<optim::ParameterGroup>& groups() const { return groups_; }
    static std::size_t parameters_count(std::size_t width, std::size_t hidden);

  private:
    struct Pass;  // what a forward pass leaves for the backward one
    std::span<const float> part(std::size_t group) const;
    Pass run(const Tensor& inputs) const;

    FfnOptions options_;
    ExpertSchema schema_;
    std::vector<optim::ParameterGroup> groups_;
    std::vector<float> parameters_;
    std::vector<std::vector<float>> moments_;
    std::uint64_t updates_ = 0;
};

// An expert's snapshot: parameters, then moments. Servers with and without libtorch share it.
std::vector<state::Section> snapshot_sections(const optim::OptimizerConfig& optimizer,
                                              const std::vector<float>& parameters,
                                              const std::vector<std::vector<float>>& moments);
// In place: the parameters stay where they are. bad_input: sections of another expert.
Ok load_sections(const std::vector<state::Section>& sections,
                 std::vector<float>& parameters,
                 std::vector<std::vector<float>>& moments);

// hivemind's optimizer of an expert by default: Adam, as AdamW without decay.
optim::OptimizerConfig default_optimizer();

}  // namespace dedloc::experts
