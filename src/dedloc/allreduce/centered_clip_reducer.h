// CenteredClipReducer: a part's average is the point at which the members' clipped differences
// cancel (robust/centered_clip.h), so that one member moves it by its share of tau at most, however
// long its contribution is. It needs all contributions at once: no grid.
//
// The reducer works on means, sum / weight of each stretch. A member weighs what it brings to the
// part on average, at most weight_cap times the median member. What follows the gradients (changes
// of buffers) has lengths of its own, for which tau says nothing: there it is the weighted
// coordinate-wise median.
//
// Cost: robust/centered_clip_bench.cpp. Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/allreduce/reducer.h"

namespace dedloc::allreduce {

inline constexpr std::uint32_t centered_clip_number = 1;

// The rule that a run fixes.
struct CenteredClipRule {
    double tau = 0;  // of the whole vector; a part's follows from its share. 0: as plans say
    std::uint32_t iterations_max = 500;
    double eps = 1e-6;  // of tau
    double weight_cap = 2;
};

// The tau of a part of a plan, by its share of the vector: the plan's, or where it has none the
// rule's.
double tau_of(const consensus::RoundPlan& plan, std::uint32_t part, const CenteredClipRule& rule);

class CenteredClipReducer final : public Reducer {
  public:
    explicit CenteredClipReducer(const CenteredClipRule& rule) : rule_(rule) {}

    const CenteredClipRule& rule() const { return rule_; }
    std::uint32_t number() const override { return centered_clip_number; }
    bool adds_up() const override { return false; }
    // Refused is whose numbers are not finite, or far beyond all use. What is merely long is
    // clipped.
    ReducedPart reduce(const consensus::RoundPlan& plan,
                       std::uint32_t part,
                       const std::vector<PartInput>& inputs) const override;
    ReducedPart sum(const consensus::RoundPlan& plan,
                    std::uint32_t part,
                    const std::vector<PartInput>& inputs) const override;

  private:
    CenteredClipRule rule_;
};

}  // namespace dedloc::allreduce
