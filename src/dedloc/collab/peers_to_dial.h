// Whom to dial, by the addresses of a join string.
//
// Thread: the network thread.

#pragma once
#include <string>
#include <vector>

#include "dedloc/p2p/host.h"

namespace dedloc::collab {

// One address of each peer, as the host is told the others and tries all of them side by side. Who
// is connected already comes first: the others may be gone.
std::vector<std::string> peers_to_dial(p2p::Host& host, const std::vector<std::string>& addresses);

}  // namespace dedloc::collab
