// Samples of one peer's own sequence, and what a state is worth on held-out ones.
//
// Thread: any; values.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/consensus/member_input.h"

namespace dedloc::collab {

// Samples [begin, end) of one peer's own sequence.
using consensus::CounterRange;

// Samples of local steps that wait for the turn of a fragment, of each in a run with some.
using WaitingSamples = std::vector<std::uint64_t>;

// Whole samples, by each fragment's part of the vector.
std::uint64_t total_of(const WaitingSamples& waiting, std::uint64_t vector_count);
std::string listed(const WaitingSamples& waiting);  // "0 (16 samples), 2 (48)"

struct Evaluation {
    double loss = 0;      // mean over held-out samples
    double accuracy = 0;  // fraction, NaN where the task has none
    std::uint64_t samples = 0;
};

}  // namespace dedloc::collab
