#include "dedloc/allreduce/sparse_sums.h"

#include <algorithm>

#include "dedloc/allreduce/part_codec.h"

namespace dedloc::allreduce {

bool brings_something(const consensus::RoundPlan& plan, std::uint32_t member) {
    return !plan.members[member].input.is_empty();
}

std::size_t contributors_in(const consensus::RoundPlan& plan) {
    return static_cast<std::size_t>(std::ranges::count_if(
        plan.members, [](const auto& member) { return !member.input.is_empty(); }));
}

bool sums_sparsely(const consensus::RoundPlan& plan, std::uint32_t part) {
    return plan.sum_codec != 0 && codec::is_sparse(codec_of(plan, part));
}

void KeptRests::put(const Digest& previous, const consensus::FinishedPart& part, Rest rest) {
    std::vector<Digest> plans;
    for (const Kept& each : kept_)
        if (std::ranges::find(plans, each.part.plan) == plans.end())
            plans.push_back(each.part.plan);
    const bool is_new = std::ranges::find(plans, part.plan) == plans.end();
    if (is_new && plans.size() >= left_out_plans_max)
        std::erase_if(kept_, [&](const Kept& each) { return each.part.plan == plans.front(); });
    kept_.push_back({previous, part, std::move(rest)});
}

KeptRests::Rest KeptRests::find(const consensus::FinishedPart& part) const {
    for (const Kept& each : kept_)
        if (each.part.plan == part.plan && each.part.part == part.part &&
            each.part.repair == part.repair && each.part.digest == part.digest)
            return each.rest;
    return nullptr;
}

void KeptRests::keep_only(const Digest& previous) {
    std::erase_if(kept_, [&](const Kept& each) { return each.previous != previous; });
}

std::size_t KeptRests::bytes() const {
    std::size_t bytes = 0;
    for (const Kept& each : kept_) bytes += each.rest->size() * sizeof(float);
    return bytes;
}

}  // namespace dedloc::allreduce
