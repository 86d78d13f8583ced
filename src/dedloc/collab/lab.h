// Experiments and tests of the checkers plant this in a collaboration; no run file can say it.
//
// Thread: the network thread.

#pragma once
#include <memory>

#include "dedloc/allreduce/reducer.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/consensus/planted_bugs.h"

namespace dedloc::collab {

struct Planted {
    consensus::PlantedBugs bugs{};
    // A reducer that no run file names; null: the run's own.
    std::shared_ptr<const allreduce::Reducer> reducer{};
};

// Collaboration::make with these in it.
Result<std::unique_ptr<Collaboration>> make_planted(runtime::Node node,
                                                    p2p::Host& host,
                                                    const security::Signer& signer,
                                                    const security::Verifier& verifier,
                                                    Options options,
                                                    events::EventSink* events,
                                                    Planted planted);

}  // namespace dedloc::collab
