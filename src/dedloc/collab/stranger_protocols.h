// Lists the protocols, beside those of membership, that strangers may speak with a peer of a run,
// each with the reason. Its gate (membership/run_gate.h) keeps them from all others.
//
// Thread: any; pure.

#pragma once
#include <vector>

#include "dedloc/p2p/gate.h"

namespace dedloc::collab {

// Strangers may do that with this node's part of the distributed table: look_up with `host
// --listed`, store at a relay, which keeps names of any run.
enum class TableUse { none, look_up, store };

std::vector<p2p::OpenProtocol> stranger_protocols(TableUse use);

}  // namespace dedloc::collab
