// Fetching finished parts from whoever has them, by the digest of their bytes.
//
// Thread: the network thread. Cancel: nothing is left behind.

#pragma once
#include <vector>

#include "dedloc/averaging/context.h"

namespace dedloc::averaging {

struct PartSources {
    std::vector<PeerId> members;     // the plan's, in its order
    std::vector<PeerId> candidates;  // whom to ask, in this order
    std::vector<PeerId> fellows{};   // who may be fetching the same
};

// All parts of a commit, several at a time; what comes is in the part store. Each is asked of who
// reduced it, so that lines are used as the plan used them, then of one candidate after the other:
// connected ones first, who does not answer last. Those who fetch the same begin with different
// parts; where parts take long, each asks the fellow who began a little before one for it first.
// Errors: not_found (nobody who was asked has one of them), timeout.
Task<Result<void>> fetch_parts(RoundContext& context,
                               std::vector<consensus::FinishedPart> parts,
                               PartSources sources,
                               TimePoint deadline);

std::vector<PeerId> peers_of(const std::vector<consensus::PlanMember>& members);

// Answers fetch calls from the part store.
Result<Bytes> answer_fetch(const PartStore& parts, ByteView request);

}  // namespace dedloc::averaging
