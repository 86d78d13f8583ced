// A part of a vector to which three members bring sparse contributions. Of the tests only.
#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/plan.h"

namespace dedloc::allreduce {

constexpr std::uint64_t gathered_offset = 4096;
constexpr std::uint64_t gathered_count = 2 * 4096 + 300;

// The plan has one part, and three members with 3, 5 and 8 samples; the second carries 2 more on
// some ranges.
inline consensus::RoundPlan sparse_plan(std::uint32_t owner = 0) {
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec::CodecId::sparse);
    plan.members.resize(3);
    plan.members[0].input.fresh = {0, 3};
    plan.members[1].input.fresh = {10, 15};
    plan.members[1].input.carried = {8, 10};
    plan.members[1].input.carried_ranges = {{0, 5000}, {9000, 7}};
    plan.members[2].input.fresh = {0, 8};
    plan.parts = {{gathered_offset, gathered_count, owner}};
    return plan;
}

inline std::vector<float> sparse_sum(std::uint64_t seed) {
    Random random(seed);
    std::vector<float> sum(gathered_count);
    for (float& value : sum) value = static_cast<float>(random.normal());
    return sum;
}

}  // namespace dedloc::allreduce
