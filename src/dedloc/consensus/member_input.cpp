#include "dedloc/consensus/member_input.h"

#include <algorithm>

namespace dedloc::consensus {
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

ElementRange fragment_of(std::uint64_t vector_count, std::uint64_t fragments, std::uint64_t step) {
    const std::uint64_t place = step % fragments;
    const auto border = [&](std::uint64_t at) {  // without a product that could overflow
        return vector_count / fragments * at + vector_count % fragments * at / fragments;
    };
    return {border(place), border(place + 1) - border(place)};
}

std::uint64_t samples_on(ElementRange moved, std::uint64_t samples, std::uint64_t vector_count) {
    if (moved.count == 0 || moved.count == vector_count) return samples;
    return static_cast<std::uint64_t>(static_cast<double>(samples) *
                                      static_cast<double>(moved.count) /
                                      static_cast<double>(vector_count));
}

Ok check_input(const MemberInput& input, std::uint64_t vector_count, std::uint64_t samples_max) {
    if (input.fresh.end < input.fresh.begin || input.carried.end < input.carried.begin)
        return bad("its sample counters run backwards");
    for (const CounterRange& samples : {input.fresh, input.carried}) {
        if (samples.end > counters_max) return bad("its sample counters are beyond all numbers");
        if (samples.left_out > samples.end - samples.begin)
            return bad("it leaves out more samples than it names");
        if (samples.left_out > samples_max)
            return bad("it leaves out more samples than the run allows for one step");
    }
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

}  // namespace dedloc::consensus
