#include "dedloc/averaging/contribution.h"

#include <algorithm>

namespace dedloc::averaging {
namespace {

Error bad(const char* why) {
    return make_error(ErrorKind::peer_broke_protocol, "a contribution is refused: {}", why);
}

ElementRange overlap(ElementRange a, ElementRange b) {
    const std::uint64_t offset = std::max(a.offset, b.offset);
    const std::uint64_t end = std::min(a.end(), b.end());
    return {offset, end > offset ? end - offset : 0};
}

}  // namespace

Ok check_input(const MemberInput& input, std::uint64_t vector_count, std::uint64_t samples_max) {
    if (input.fresh.end < input.fresh.begin || input.carried.end < input.carried.begin)
        return bad("its sample counters run backwards");
    for (const CounterRange& samples : {input.fresh, input.carried})
        if (samples.left_out > samples.end - samples.begin)
            return bad("it leaves out more samples than it names");
    if (input.fresh.size() > samples_max || input.carried.size() > samples_max - input.fresh.size())
        return bad("it claims more samples than the run allows for one step");
    if (input.carried.size() > 0 && input.carried.end > input.fresh.begin && input.fresh.size() > 0)
        return bad("its carried samples overlap its fresh ones");
    if ((input.carried.size() == 0) != input.carried_ranges.empty())
        return bad("carried samples and carried ranges do not match");
    std::uint64_t position = 0;
    for (const ElementRange& range : input.carried_ranges) {
        if (range.offset < position || range.count == 0 || range.offset > vector_count ||
            range.count > vector_count - range.offset)
            return bad("its carried ranges overlap or leave the vector");
        position = range.end();
    }
    return {};
}

int scale_exponent(const MemberInput& input) {
    int exponent = 0;
    while ((std::uint64_t{1} << exponent) < input.weight_max() && exponent < 62) ++exponent;
    return exponent;
}

std::vector<WeightSegment> total_weights(const std::vector<const MemberInput*>& inputs,
                                         ElementRange part) {
    // Sweep over the carried ranges' ends inside the part: (position, change of weight).
    std::vector<std::pair<std::uint64_t, std::int64_t>> changes;
    std::uint64_t fresh = 0;
    for (const MemberInput* input : inputs) {
        fresh += input->fresh.size();
        const auto carried = static_cast<std::int64_t>(input->carried.size());
        for (const ElementRange& range : intersect(input->carried_ranges, part)) {
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

double included_samples(const MemberInput& input, ElementRange part, std::uint64_t vector_count) {
    if (vector_count == 0) return 0;
    const std::uint64_t carried_elements = total_count(intersect(input.carried_ranges, part));
    const double fresh = static_cast<double>(input.fresh.size()) * static_cast<double>(part.count);
    const double carried =
        static_cast<double>(input.carried.size()) * static_cast<double>(carried_elements);
    return (fresh + carried) / static_cast<double>(vector_count);
}

std::vector<ElementRange> intersect(const std::vector<ElementRange>& ranges, ElementRange with) {
    std::vector<ElementRange> result;
    for (const ElementRange& range : ranges) {
        const ElementRange common = overlap(range, with);
        if (common.count > 0) result.push_back(common);
    }
    return result;
}

std::vector<ElementRange> joined(std::vector<ElementRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const ElementRange& a, const ElementRange& b) {
        return a.offset < b.offset;
    });
    std::vector<ElementRange> result;
    for (const ElementRange& range : ranges) {
        if (range.count == 0) continue;
        if (!result.empty() && range.offset <= result.back().end())
            result.back().count = std::max(result.back().end(), range.end()) - result.back().offset;
        else
            result.push_back(range);
    }
    return result;
}

std::vector<ElementRange> complement(const std::vector<ElementRange>& ranges, std::uint64_t count) {
    std::vector<ElementRange> result;
    std::uint64_t position = 0;
    for (const ElementRange& range : ranges) {
        if (range.offset > position) result.push_back({position, range.offset - position});
        position = std::max(position, range.end());
    }
    if (position < count) result.push_back({position, count - position});
    return result;
}

std::uint64_t total_count(const std::vector<ElementRange>& ranges) {
    std::uint64_t total = 0;
    for (const ElementRange& range : ranges) total += range.count;
    return total;
}

}  // namespace dedloc::averaging
