// The baselines of the experiment with poisoned gradients, as reducers: the coordinate-wise median
// and the geometric median. Runs do not offer them: no projection proves such a reduction.
//
// Thread: any; pure. Cost: robust/medians.h.

#pragma once
#include "dedloc/allreduce/reducer.h"

namespace dedloc::lab {

class CoordinateMedianReducer final : public allreduce::Reducer {
  public:
    std::uint32_t number() const override { return 101; }
    bool adds_up() const override { return false; }
    allreduce::ReducedPart reduce(const consensus::Plan& plan,
                                  std::uint32_t part,
                                  const std::vector<allreduce::PartInput>& inputs) const override;
    allreduce::ReducedPart sum(const consensus::Plan&,
                               std::uint32_t,
                               const std::vector<allreduce::PartInput>&) const override {
        return {};  // no plan has a grid
    }
};

class GeometricMedianReducer final : public allreduce::Reducer {
  public:
    std::uint32_t number() const override { return 102; }
    bool adds_up() const override { return false; }
    allreduce::ReducedPart reduce(const consensus::Plan& plan,
                                  std::uint32_t part,
                                  const std::vector<allreduce::PartInput>& inputs) const override;
    allreduce::ReducedPart sum(const consensus::Plan&,
                               std::uint32_t,
                               const std::vector<allreduce::PartInput>&) const override {
        return {};  // no plan has a grid
    }
};

}  // namespace dedloc::lab
