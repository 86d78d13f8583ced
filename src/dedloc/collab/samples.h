// Samples of one peer's own sequence, and what a state is worth on held-out ones.
//
// Thread: any; values.

#pragma once
#include <cstdint>

#include "dedloc/consensus/member_input.h"

namespace dedloc::collab {

// Samples [begin, end) of one peer's own sequence.
using consensus::CounterRange;

struct Evaluation {
    double loss = 0;      // mean over held-out samples
    double accuracy = 0;  // fraction, NaN where the task has none
    std::uint64_t samples = 0;
};

}  // namespace dedloc::collab
