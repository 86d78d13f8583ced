// CheckJob: a validator's work in a robust run (docs/robust-runs.md): another peer's contribution,
// to be computed again from its sample numbers at the states it was computed at.
//
// Thread: any; values.

#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/consensus/member_input.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::validation {

// Samples whose gradients were computed at one state.
struct CheckPiece {
    consensus::CounterRange samples;
    std::shared_ptr<const state::Snapshot> state;
};

struct CheckJob {
    std::uint64_t number = 0;  // by which its result is known
    PeerId author;
    PeerId validator;                // this peer
    std::vector<CheckPiece> pieces;  // the fresh samples, then those that were carried
};

struct CheckResult {
    std::uint64_t number = 0;
    // One vector of sums a piece, as a contribution's; none: it cannot be computed here.
    std::vector<std::vector<float>> sums;
};

}  // namespace dedloc::validation
