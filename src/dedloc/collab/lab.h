// Experiments and tests of the checkers plant this in a collaboration; no run file can say it.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <span>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/allreduce/reducer.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/consensus/planted_bugs.h"

namespace dedloc::collab {

// A contribution as it goes into the round, of a run with a sparse codec.
struct FrozenContribution {
    const allreduce::RoundInput& input;
    std::span<const float> unsent;  // before it,
    float share = 1;                // and how much of that is in it
    std::uint64_t forgotten = 0;    // so often what was unsent has been
};

struct Planted {
    consensus::PlantedBugs bugs{};
    std::function<void(const FrozenContribution&)> on_frozen{};
    // A reducer that no run file names; null: the run's own.
    std::shared_ptr<const allreduce::Reducer> reducer{};
};

// Collaboration::make with these in it.
Result<std::unique_ptr<Collaboration>> make_planted(runtime::Node node,
                                                    p2p::Host& host,
                                                    const security::Signer& signer,
                                                    const security::Verifier& verifier,
                                                    CollaborationOptions options,
                                                    events::EventSink* events,
                                                    Planted planted);

}  // namespace dedloc::collab
