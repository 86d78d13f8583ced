// Asks a peer a question without sense in one of its protocols, to see whether its gate lets the
// caller in (p2p/gate.h).
//
// Thread: the network thread of `host`. Errors: as the peer's answer; unsupported: it has no such
// protocol.

#pragma once
#include <string>

#include "dedloc/base/peer_id.h"
#include "dedloc/p2p/host.h"

namespace dedloc::lab {

// An answer, or one that waits for more: the caller was let in.
Task<Result<bool>> probe_protocol(p2p::Host& host, PeerId to, std::string method);

// The words with which a gate refuses.
bool is_refused_by_gate(const Error& error);

}  // namespace dedloc::lab
