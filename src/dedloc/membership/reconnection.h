// Reconnection: says hello to the peers that this one has heard of, and again to members that it
// has lost. A broken connection to a live peer is mended before a round misses it.
//
// The longer nothing came from a peer, the rarer it is tried; one that has brought nothing yet, and
// whose addresses may be anybody's, only a few times.
//
// Thread: the network thread.

#pragma once
#include <functional>

#include "dedloc/membership/handshake.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::membership {

class Reconnection {
  public:
    // Tasks run in `scope`, which ends before this.
    // `on_refused`: a peer and we may not take part together, and why.
    Reconnection(runtime::Clock& clock,
                 PeerTable& table,
                 Handshake& handshake,
                 runtime::Scope& scope,
                 std::function<void(const PeerId&, const Error&)> on_refused)
        : clock_(clock),
          table_(table),
          handshake_(handshake),
          scope_(scope),
          on_refused_(std::move(on_refused)) {}

    // To be called now and then: tries those whose time has come.
    void poll();
    // `known` is a member no more: the next look tries it.
    void soon(KnownPeer& known) { known.next_meeting = clock_.now(); }

  private:
    Task<void> meet_again(PeerId peer);
    TimePoint next_try(KnownPeer& peer) const;
    Duration until_met_again(const KnownPeer& peer) const;

    runtime::Clock& clock_;
    PeerTable& table_;
    Handshake& handshake_;
    runtime::Scope& scope_;
    std::function<void(const PeerId&, const Error&)> on_refused_;
};

}  // namespace dedloc::membership
