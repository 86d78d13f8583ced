// VectorModel: a model whose parameters are one vector of its own, and which adds up gradients by
// itself: what a task without libtorch begins with.
//
//   class Line : public VectorModel {
//       Line() : VectorModel(layout, {0, 0}) {}
//       Result<GradientReport> accumulate(CounterRange samples) override;  // parameters() -> sum()
//       Result<Evaluation> evaluate() override;
//   };
//
// Thread: one at a time.

#pragma once
#include <span>
#include <utility>
#include <vector>

#include "dedloc/train/model.h"

namespace dedloc::train {

class VectorModel : public SampledModel {
  public:
    // The model begins with these parameters; the layout has no buffers.
    VectorModel(run::Layout layout, std::vector<float> parameters);

    run::Layout layout() const override { return layout_; }
    void load(std::span<const float> parameters, std::span<const float> buffers) override;
    void store(std::span<float> parameters, std::span<float> buffers) const override;
    void take_sum(std::span<float> gradient_sum) override;
    void take_buffers(std::span<float>, double) override {}
    void forget_sum() override { sum_.assign(sum_.size(), 0.0f); }

  protected:
    std::span<const float> parameters() const { return parameters_; }
    std::span<float> sum() { return sum_; }

  private:
    run::Layout layout_;
    std::vector<float> parameters_;
    std::vector<float> sum_;
};

}  // namespace dedloc::train
