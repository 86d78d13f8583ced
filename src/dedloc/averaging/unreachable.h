// UnreachablePeers: whom this peer lately failed to reach although others say they live. Members
// tell the leader with their announcements, and such a pair gets no parts to exchange
// (DESIGN §5.2: reachability is pairwise).
//
// Thread: the network thread. Cost: linear in the few peers it names.

#pragma once
#include <map>
#include <vector>

#include "dedloc/averaging/messages.h"
#include "dedloc/base/time.h"
#include "dedloc/p2p/host.h"

namespace dedloc::averaging {

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

// Owners, and collectors, whose averages or sums did not come. An aggregator that is one of them
// owns nothing for a while: it cost everybody a repair, and the group has no other use for it. Nor
// does anybody who sent what the protocol does not allow; that one did not come may be our own
// line's fault.
class FailedOwners {
  public:
    void failed(const PeerId& peer, TimePoint now, bool broke_protocol) {
        std::erase_if(until_, [now](const auto& entry) { return entry.second.any <= now; });
        if (until_.size() >= unreachable_max && !until_.contains(peer)) return;
        Until& until = until_[peer];
        until.any = now + forgotten_after;
        if (broke_protocol) until.broke_protocol = until.any;
    }
    bool contains(const PeerId& peer, TimePoint now) const {
        const auto found = until_.find(peer);
        return found != until_.end() && now < found->second.any;
    }
    bool broke_protocol(const PeerId& peer, TimePoint now) const {
        const auto found = until_.find(peer);
        return found != until_.end() && now < found->second.broke_protocol;
    }

  private:
    static constexpr Duration forgotten_after = std::chrono::seconds(20);
    struct Until {
        TimePoint any;
        TimePoint broke_protocol;
    };
    std::map<PeerId, Until> until_;
};

}  // namespace dedloc::averaging
