// A member brings this to a step, in counters: which of its samples, on which ranges of the vector.
//
// A contribution is a SUM over samples. Besides the fresh samples of this step it may hold, on some
// ranges of the vector, the sums of the previous step's samples that the last certificate did not
// include (docs/spec/round.md): weights are therefore piecewise constant along the vector.
//
// Thread: any; pure. Cost: linear in the number of ranges.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/result.h"

namespace dedloc::consensus {

// Carried ranges of one contribution. Bounds a message; a plan has at most as many parts.
inline constexpr std::size_t ranges_max = 8192;

// Samples [begin, end) of one peer's own sequence. `left_out` of them have no part in the sum and
// no weight: their gradients were not finite, as whoever computes them again finds.
struct CounterRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t left_out = 0;

    std::uint64_t size() const { return end - begin - left_out; }
    // The last `count` samples before `end` have no part in the sum. A range without any part is
    // empty and starts anew at its end.
    void leave_out(std::uint64_t count) {
        left_out += count;
        if (size() == 0) *this = {end, end};
    }
    friend bool operator==(const CounterRange&, const CounterRange&) = default;
    DEDLOC_FIELDS(begin, end, left_out)
};

// Elements [offset, offset + count) of the flattened vector.
struct ElementRange {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;

    std::uint64_t end() const { return offset + count; }
    friend bool operator==(const ElementRange&, const ElementRange&) = default;
    DEDLOC_FIELDS(offset, count)
};

// The elements that a round of step `step` moves, where `fragments` of the vector take turns
// ([local] fragments). 1: all.
ElementRange fragment_of(std::uint64_t vector_count, std::uint64_t fragments, std::uint64_t step);
// Whole samples that these are on `moved` alone, by its fraction of the vector. Empty: all of it.
std::uint64_t samples_on(ElementRange moved, std::uint64_t samples, std::uint64_t vector_count);

struct MemberInput {
    CounterRange fresh;                        // on all that the round moves
    CounterRange carried;                      // only on carried_ranges
    std::vector<ElementRange> carried_ranges;  // sorted, disjoint, not empty

    friend bool operator==(const MemberInput&, const MemberInput&) = default;
    DEDLOC_FIELDS(fresh, carried, (carried_ranges, ranges_max))

    std::uint64_t weight_max() const { return fresh.size() + carried.size(); }
    bool is_empty() const { return weight_max() == 0; }
};

// Counters of samples end before this, so that adding to them never overflows.
inline constexpr std::uint64_t counters_max = std::uint64_t{1} << 62;

// A validator computes what is left out of a contribution, too: no more than samples_max of fresh
// and of carried samples each.
// Errors: peer_broke_protocol: counters run backwards, overflow samples_max or counters_max, ranges
// overlap or leave the vector.
Ok check_input(const MemberInput& input, std::uint64_t vector_count, std::uint64_t samples_max);

// Samples of `input` inside `part`, as a fraction of the whole vector: (fresh + carried overlap) ×
// count / vector_count.
double included_samples(const MemberInput& input, ElementRange part, std::uint64_t vector_count);

// The intersection of sorted, disjoint range lists with one range.
std::vector<ElementRange> intersect(const std::vector<ElementRange>& ranges, ElementRange with);
// Sorted union of ranges; neighbours are joined.
std::vector<ElementRange> joined(std::vector<ElementRange> ranges);
// [0, count) without `ranges` (sorted, disjoint).
std::vector<ElementRange> complement(const std::vector<ElementRange>& ranges, std::uint64_t count);
std::uint64_t total_count(const std::vector<ElementRange>& ranges);

}  // namespace dedloc::consensus
