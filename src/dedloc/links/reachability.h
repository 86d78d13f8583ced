// UnreachablePeers: the peers that this one lately failed to reach although others say they live.
// Members tell the leader with their announcements, and such a pair gets no parts to exchange
// (reachability is pairwise).
//
// Thread: the network thread. Cost: linear in the few peers it names.

#pragma once
#include <map>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"
#include "dedloc/p2p/host.h"

namespace dedloc::links {

// Peers that one announcement names as unreachable.
inline constexpr std::size_t unreachable_max = 64;

class UnreachablePeers {
  public:
    // Only what fails for want of a connection counts; a slow peer is another matter.
    void failed(const p2p::Host& host, const PeerId& peer, TimePoint now) {
        if (!host.is_connected(peer) && until_.size() < unreachable_max)
            until_[peer] = now + forgotten_after;
    }
    // Without those that are connected by now, and those whose time is over.
    std::vector<PeerId> list(const p2p::Host& host, TimePoint now) {
        std::erase_if(until_, [&](const auto& entry) {
            return entry.second <= now || host.is_connected(entry.first);
        });
        std::vector<PeerId> peers;
        for (const auto& [peer, until] : until_) peers.push_back(peer);
        return peers;
    }

  private:
    // Then it is tried again, which costs at most one round its repair: not in every step, however
    // long they are. Whoever is connected before is on the list no more.
    static constexpr Duration forgotten_after = std::chrono::minutes(5);
    std::map<PeerId, TimePoint> until_;
};

}  // namespace dedloc::links
