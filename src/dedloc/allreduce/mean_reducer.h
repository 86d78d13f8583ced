// MeanReducer: the weighted mean of all contributions, piece by piece through the first-level
// cache.
//
//   reduce   acc += decode(x_i) × 2^k_i in the order of the members that send; acc / total weight,
//            piecewise; encoded once
//   apply    everybody, the owner too, decodes those bytes
//
// Cost: see bench/README.md. Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/reducer.h"

namespace dedloc::allreduce {

// `inputs` in the order in which they are added (the plan's member order). Members that bring no
// weight do not appear. Refused is whose numbers are not finite, and whose mean over its samples
// has in this part a norm beyond `norm_max` (0: any). With no input left the average is zero.
// Nobody is looked at alone while the sum shows that all is well: it is finite, and shorter than
// half of what the member with the fewest samples might bring.
ReducedPart reduce_part(const consensus::RoundPlan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs,
                        double norm_max = 0);

// The same without division, for who adds further: the sum as fp32, whatever the part's codec, and
// no digest.
ReducedPart sum_part(const consensus::RoundPlan& plan,
                     std::uint32_t part,
                     const std::vector<PartInput>& inputs,
                     double norm_max = 0);

class MeanReducer final : public Reducer {
  public:
    explicit MeanReducer(double norm_max) : norm_max_(norm_max) {}

    std::uint32_t number() const override { return mean_number; }
    bool adds_up() const override { return true; }
    ReducedPart reduce(const consensus::RoundPlan& plan,
                       std::uint32_t part,
                       const std::vector<PartInput>& inputs) const override {
        return reduce_part(plan, part, inputs, norm_max_of(plan, part));
    }
    ReducedPart sum(const consensus::RoundPlan& plan,
                    std::uint32_t part,
                    const std::vector<PartInput>& inputs) const override {
        return sum_part(plan, part, inputs, norm_max_of(plan, part));
    }

  private:
    double norm_max_of(const consensus::RoundPlan& plan, std::uint32_t part) const {
        return plan.is_bounded(plan.parts[part]) ? norm_max_ : 0;
    }

    double norm_max_;
};

}  // namespace dedloc::allreduce
