// The baselines of the experiment with poisoned gradients, as reducers: the coordinate-wise median
// and the geometric median. Runs do not offer them: no projection proves such a reduction.
//
// Thread: any; pure. Cost: robust/medians.h.

#pragma once
#include "dedloc/allreduce/reducer.h"
#include "dedloc/robust/inputs.h"

namespace dedloc::lab {

class MedianReducer : public allreduce::Reducer {
  public:
    bool adds_up() const override { return false; }
    allreduce::ReducedPart reduce(const consensus::RoundPlan& plan,
                                  std::uint32_t part,
                                  const std::vector<allreduce::PartInput>& inputs) const override;
    allreduce::ReducedPart sum(const consensus::RoundPlan&,
                               std::uint32_t,
                               const std::vector<allreduce::PartInput>&) const override {
        return {};  // no plan has a grid
    }

  protected:
    virtual void median(const robust::Inputs& means,
                        std::span<const double> weights,
                        std::span<float> out) const = 0;
};

class CoordinateMedianReducer final : public MedianReducer {
  public:
    std::uint32_t number() const override { return 101; }

  protected:
    void median(const robust::Inputs& means,
                std::span<const double> weights,
                std::span<float> out) const override;
};

class GeometricMedianReducer final : public MedianReducer {
  public:
    std::uint32_t number() const override { return 102; }

  protected:
    void median(const robust::Inputs& means,
                std::span<const double> weights,
                std::span<float> out) const override;
};

}  // namespace dedloc::lab
