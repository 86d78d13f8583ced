// WeightlessWaits: whether a leader waits a moment for members of a robust round that weigh nothing
// yet: their contributions are checked, and that is how they come to weigh something. Identities
// cost nothing, so that one in vain costs the others a moment only a few times, and then rarely.
//
// Pure. Thread: any. Limit: peers_most identities are remembered.

#pragma once
#include <set>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/token_bucket.h"

namespace dedloc::averaging {

class WeightlessWaits {
  public:
    static constexpr double burst = 8;
    static constexpr double per_s = 1.0 / 30;
    static constexpr std::size_t peers_most = 512;

    bool waits_for(const PeerId& peer, TimePoint now) {
        return !failed_.contains(peer) && left_.has(now);
    }
    // The others waited for this peer, and it did not come.
    void failed(const PeerId& peer, TimePoint now) {
        if (failed_.size() >= peers_most) failed_.clear();
        if (failed_.insert(peer).second) (void)left_.acquire(now);
    }
    void came(const PeerId& peer) { failed_.erase(peer); }

  private:
    TokenBucket left_{burst, per_s};
    std::set<PeerId> failed_;
};

}  // namespace dedloc::averaging
