// What a proposal leaves out because its voters hold it already: the plan, and the finished parts
// that they got from their owners. Of a decision about 1,000 parts that is all but a few hundred
// bytes, and a leader sends it to everybody over its own line.
//
// Thread: the network thread. Cost: encoding the decision once more.

#pragma once
#include "dedloc/averaging/exchange.h"
#include "dedloc/averaging/messages.h"

namespace dedloc::averaging {

// A proposal of this decision without what its voters hold; without an outline if it is no commit,
// or cannot be read.
Propose outlined(std::uint32_t ballot, const Bytes& decision);

// The decision of an outlined proposal. Errors: not_found: another plan or other parts than are
// here; peer_broke_protocol: the outline cannot be read.
Result<Bytes> whole_decision(const Propose& propose, const Exchange& exchange);

}  // namespace dedloc::averaging
