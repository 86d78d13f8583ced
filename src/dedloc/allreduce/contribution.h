// Weighs a contribution: the exponent that its encoding divides by, and the weights of several
// members along a part (consensus/member_input.h says what they are made of).
//
// Thread: any; pure. Cost: linear in the number of ranges.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/consensus/member_input.h"

namespace dedloc::allreduce {

// A frozen contribution: sums over samples; empty vector and input for one who only receives.
struct RoundInput {
    consensus::MemberInput input;
    std::vector<float> sum;
};

// Exponent k of the power of two by which a contribution's sums are divided before they are
// encoded, so that encoded values have the size of a mean: 2^k >= weight. Exact in fp32.
int scale_exponent(const consensus::MemberInput& input);

// One stretch of a part on which the weight of every included member is constant.
struct WeightSegment {
    std::uint64_t count = 0;   // elements
    std::uint64_t weight = 0;  // samples of all included members
};

// Total weights of `inputs` (the included members) along `part`.
std::vector<WeightSegment> total_weights(const std::vector<const consensus::MemberInput*>& inputs,
                                         consensus::ElementRange part);

}  // namespace dedloc::allreduce
