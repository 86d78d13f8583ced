// FailedOwners: the owners of parts, and collectors, that let this peer down a moment ago.
//
// Thread: the network thread. Cost: linear in the few peers it names.

#pragma once
#include <map>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::allreduce {

inline constexpr std::size_t failed_owners_max = 64;  // of a group; further ones are tried again

// Owners, and collectors, whose averages or sums did not come. An aggregator that is one of them
// owns nothing for a while: it cost everybody a repair, and the group has no other use for it. Nor
// does anybody who sent what the protocol does not allow; that one did not come may be our own
// link's fault.
class FailedOwners {
  public:
    void failed(const PeerId& peer, TimePoint now, bool broke_protocol) {
        std::erase_if(until_, [now](const auto& entry) { return entry.second.any <= now; });
        if (until_.size() >= failed_owners_max && !until_.contains(peer)) return;
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

}  // namespace dedloc::allreduce
