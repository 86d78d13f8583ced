// EvaluationTurn: whose turn it is to measure the model on held-out data, so that one peer at a
// time does.
//
// The first trainer by PeerId does, of those that have a state and stay. It may not be able to, and
// nobody else can tell but by the steps that pass: the one after it takes over, and if that cannot,
// either, later the next. One that can, but slowly, is given the time it needs: or all would
// evaluate at once.
//
// Thread: the network thread.

#pragma once
#include <cstdint>

#include "dedloc/collab/collaboration.h"

namespace dedloc::train {

struct EvaluationTurn {
    std::uint64_t since = 0;  // the step at which we began: what is missed counts from there
    std::uint64_t every = 0;  // steps
    // The trainers before us: which step they measured last since then, and how many were made
    // meanwhile.
    std::uint64_t measured = 0;
    std::uint64_t taken = 0;
};

// Is it ours, at this step?
bool is_our_turn(const collab::Collaboration& collaboration,
                 std::uint64_t step,
                 EvaluationTurn& turn);

}  // namespace dedloc::train
