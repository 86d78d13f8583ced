#include "dedloc/allreduce/contribution.h"

#include <algorithm>

namespace dedloc::allreduce {

int scale_exponent(const consensus::MemberInput& input) {
    int exponent = 0;
    while ((std::uint64_t{1} << exponent) < input.weight_max() && exponent < 62) ++exponent;
    return exponent;
}

std::vector<WeightSegment> total_weights(const std::vector<const consensus::MemberInput*>& inputs,
                                         consensus::ElementRange part) {
    // Sweep over the carried ranges' ends inside the part: (position, change of weight).
    std::vector<std::pair<std::uint64_t, std::int64_t>> changes;
    std::uint64_t fresh = 0;
    for (const consensus::MemberInput* input : inputs) {
        fresh += input->fresh.size();
        const auto carried = static_cast<std::int64_t>(input->carried.size());
        for (const consensus::ElementRange& range :
             consensus::intersect(input->carried_ranges, part)) {
            changes.emplace_back(range.offset, carried);
            changes.emplace_back(range.end(), -carried);
        }
    }
    std::sort(changes.begin(), changes.end());
    std::vector<WeightSegment> segments;
    std::uint64_t position = part.offset;
    auto weight = static_cast<std::int64_t>(fresh);
    const auto close = [&](std::uint64_t end) {
        if (end == position) return;
        if (!segments.empty() && segments.back().weight == static_cast<std::uint64_t>(weight))
            segments.back().count += end - position;
        else
            segments.push_back({end - position, static_cast<std::uint64_t>(weight)});
        position = end;
    };
    for (const auto& [at, change] : changes) {
        close(at);
        weight += change;
    }
    close(part.end());
    return segments;
}

}  // namespace dedloc::allreduce
