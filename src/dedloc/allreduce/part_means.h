// PartMeans: the members' contributions to a part, decoded on the way, as means over their samples:
// what robust rules see (robust/inputs.h). Pure; the same bits on every CPU. Thread: any.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/reducer.h"
#include "dedloc/robust/inputs.h"

namespace dedloc::allreduce {

// By what the encoded sums of a member are multiplied to be sums again.
float scale_of(const consensus::RoundPlan& plan, std::uint32_t part, std::uint32_t member);
// Samples that an element of the part has of this member, on average.
double mean_weight(const consensus::RoundPlan& plan, std::uint32_t part, std::uint32_t member);
// The part of that weight which counts in a robust reduction.
double reduction_weight(const consensus::RoundPlan& plan, std::uint32_t part, std::uint32_t member);

class PartMeans final : public robust::Inputs {
  public:
    // Takes bytes that codec::verify() has passed; `inputs` outlive this.
    PartMeans(const consensus::RoundPlan& plan,
              std::uint32_t part,
              const std::vector<PartInput>& inputs);

    std::size_t members() const override { return inputs_.size(); }
    std::size_t elements() const override {
        return static_cast<std::size_t>(plan_.parts[part_].count);
    }
    void read(std::size_t member, std::size_t first, std::span<float> out) const override;
    std::vector<double> weights() const;

  private:
    const consensus::RoundPlan& plan_;
    std::uint32_t part_;
    const std::vector<PartInput>& inputs_;
    std::vector<std::vector<WeightSegment>> segments_;
};

// Inputs that may be clipped: finite, of a size that all decode, and with weight in the part.
std::vector<PartInput> sound_inputs(const consensus::RoundPlan& plan,
                                    std::uint32_t part,
                                    const std::vector<PartInput>& inputs,
                                    std::vector<RefusedInput>& refused);

}  // namespace dedloc::allreduce
