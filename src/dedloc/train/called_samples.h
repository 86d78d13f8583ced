// CalledSamples: what a loop of one's own can do beyond its own gradients, by functions of it:
// compute numbered samples of anybody, measure the model.
//
// Thread: the loop's. Errors: those of the functions.

#pragma once
#include <functional>

#include "dedloc/train/model.h"

namespace dedloc::train {

// Either may be empty.
struct LoopCalls {
    // A forward and a backward pass of these samples of `author`: the model's present gradient is
    // then that of their mean loss, which is returned.
    std::function<Result<double>(const PeerId& author, collab::CounterRange samples)> compute{};
    // Measures the model as it is. What it leaves in gradients and buffers is taken back.
    std::function<Result<collab::Evaluation>()> evaluate{};
};

class CalledSamples final : public Samples {
  public:
    // `model` outlives this. `self`: whose samples are computed to begin with.
    CalledSamples(Model& model, LoopCalls calls, const PeerId& self);

    void limit_norm(double norm_max) override { norm_max_ = norm_max; }
    Result<GradientReport> accumulate(collab::CounterRange samples) override;
    Result<void> compute_as(const PeerId& author) override;
    bool depends_on_micro_batch() const override { return model_.layout().buffers_count > 0; }
    Result<collab::Evaluation> evaluate() override;

  private:
    Model& model_;
    LoopCalls calls_;
    PeerId author_;
    double norm_max_ = 0;
};

}  // namespace dedloc::train
