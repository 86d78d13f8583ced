#include "dedloc/allreduce/sparse_sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dedloc/allreduce/part_codec.h"

namespace dedloc::allreduce {

bool brings_something(const consensus::RoundPlan& plan, std::uint32_t member) {
    return !plan.members[member].input.is_empty();
}

bool owners_bring_something(const consensus::RoundPlan& plan) {
    return std::ranges::all_of(
        plan.parts, [&](const auto& part) { return brings_something(plan, part.owner); });
}

std::size_t contributors_in(const consensus::RoundPlan& plan) {
    return static_cast<std::size_t>(std::ranges::count_if(
        plan.members, [](const auto& member) { return !member.input.is_empty(); }));
}

bool sums_sparsely(const consensus::RoundPlan& plan, std::uint32_t part) {
    return plan.sum_codec != 0 && codec::is_sparse(codec_of(plan, part));
}

void KeptRests::put(const consensus::RoundPlan& plan,
                    const consensus::FinishedPart& part,
                    Rest rest) {
    std::set<std::pair<Digest, std::uint32_t>> rounds{{part.plan, part.repair}};
    for (const Kept& each : kept_) rounds.emplace(each.part.plan, each.part.repair);
    if (rounds.size() > left_out_rounds_max) forget_a_round();
    kept_.push_back(
        {plan.previous, plan.leader, part, plan.parts[part.part].range(), std::move(rest)});
}

void KeptRests::forget_a_round() {
    std::map<PeerId, std::set<std::pair<Digest, std::uint32_t>>> rounds;
    for (const Kept& each : kept_) rounds[each.leader].emplace(each.part.plan, each.part.repair);
    const auto busiest = std::ranges::max_element(
        kept_, {}, [&](const Kept& each) { return rounds.at(each.leader).size(); });
    if (busiest == kept_.end()) return;
    std::erase_if(kept_, [oldest = busiest->part](const Kept& each) {
        return each.part.plan == oldest.plan && each.part.repair == oldest.repair;
    });
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

std::vector<consensus::ElementRange> KeptRests::ranges() const {
    std::vector<consensus::ElementRange> all;
    for (const Kept& each : kept_) all.push_back(each.range);
    return consensus::joined(std::move(all));
}

std::size_t KeptRests::bytes() const {
    std::size_t bytes = 0;
    for (const Kept& each : kept_) bytes += each.rest->size() * sizeof(float);
    return bytes;
}

std::vector<LeftOut> left_out_of(const consensus::RoundPlan& plan,
                                 const Digest& digest,
                                 const std::vector<consensus::FinishedPart>& averages,
                                 const PeerId& me,
                                 std::uint64_t incarnation,
                                 const KeptRests& rests) {
    const auto is_ours = [&](std::uint32_t p) {
        const consensus::FinishedPart& part = averages[p];
        if (part.part != p || !consensus::fits_plan(part, plan, digest) ||
            !codec::codec_from_number(plan.codec_of(plan.parts[p])))
            return false;
        const consensus::PlanMember& owner = plan.members[part.owner];
        return owner.peer == me && owner.incarnation == incarnation && sums_sparsely(plan, p);
    };
    std::vector<LeftOut> all;
    for (std::uint32_t p = 0; p < plan.parts.size() && p < averages.size(); ++p)
        if (is_ours(p))
            all.push_back({.range = plan.parts[p].range(),
                           .rest = rests.find(averages[p]),
                           .has_own = averages[p].includes(averages[p].owner)});
    return all;
}

}  // namespace dedloc::allreduce
