// WeightlessWaits: whether a leader waits a moment for members of a robust round that weigh nothing
// yet: their contributions are checked, and that is how they come to weigh something. Identities
// cost nothing, so that one in vain costs the others a moment only a few times, and then rarely.
//
// Pure. Thread: any. Limit: that of StrangersCredit.

#pragma once
#include "dedloc/base/strangers_credit.h"

namespace dedloc::averaging {

class WeightlessWaits {
  public:
    static constexpr double burst = 8;
    static constexpr double per_s = 1.0 / 30;
    static constexpr std::size_t peers_most = StrangersCredit::peers_most;

    bool waits_for(const PeerId& peer, TimePoint now) {
        return !credit_.has_failed(peer) && credit_.is_left(now);
    }
    // The others waited for this peer, and it did not come.
    void failed(const PeerId& peer, TimePoint now) { credit_.failed(peer, now); }
    void came(const PeerId& peer) { credit_.forgive(peer); }

  private:
    StrangersCredit credit_{burst, per_s};
};

}  // namespace dedloc::averaging
