// A compact proposal leaves out what its voters hold already: the plan, and the finished parts that
// they got from their owners. Of a decision about 1,000 parts that is all but a few hundred bytes,
// and a leader sends it to everybody over its own link.
//
// Thread: the network thread. Cost: encoding the decision once more.

#pragma once
#include <cstdint>
#include <map>

#include "dedloc/consensus/messages.h"

namespace dedloc::consensus {

// A proposal of this decision without what its voters hold; without a compact
// decision if it is no commit, or cannot be read.
Propose compact_proposal(std::uint32_t ballot, const Bytes& decision);

// The decision of a compact proposal, by the plan and the parts that are here. Errors: not_found:
// another plan or other parts; peer_broke_protocol: the compact decision cannot be read.
Result<Bytes> whole_decision(const Propose& propose,
                             const RoundPlan& plan,
                             const std::map<std::uint32_t, FinishedPart>& finished);

}  // namespace dedloc::consensus
