// Tells what a libp2p host knows of the peers it is connected to, and asks them small questions:
// for `dedloc check`, the views, and tests beside foreign implementations.
//
//   if (PeerView* view = view_of(*host)) co_await view->ping(peer, deadline);
//
// Thread: the network thread. Errors: timeout, peer_gone, unsupported, not_found.

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dedloc/p2p/host.h"

namespace dedloc::p2p {

struct PeerFacts {
    std::string agent{};     // what identify said; empty before
    std::string security{};  // "/tls/1.0.0", "/noise"
    std::vector<std::string> protocols{};
    bool we_dialled = false;
    std::size_t lanes = 1;  // for bulk streams
};

class PeerView {
  public:
    virtual ~PeerView() = default;
    virtual std::optional<PeerFacts> facts_of(const PeerId& peer) const = 0;
    // Over the connections to that peer, and to all (peer_traffic.h); loopback counts, too.
    virtual runtime::Traffic traffic_with(const PeerId& peer) const = 0;
    virtual runtime::Traffic traffic_with_all() const = 0;
    // One libp2p ping (not yamux's).
    virtual Task<Result<Duration>> ping(PeerId peer, TimePoint deadline) = 0;
    // Asks other peers for its addresses (FIND_NODE) though some may be known already.
    virtual Task<Result<std::vector<std::string>>> find_peer(PeerId peer, TimePoint deadline) = 0;
};

// Null for hosts without a network of their own (sim::SimHost).
PeerView* view_of(Host& host);

}  // namespace dedloc::p2p
