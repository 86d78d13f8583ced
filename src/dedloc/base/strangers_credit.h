// StrangersCredit: how long strangers are given the benefit of the doubt. Identities cost nothing,
// so each of them that fails spends of a credit that all share, and spends it once.
//
// Pure. Thread: any. Limit: peers_most identities are remembered.

#pragma once
#include <set>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/token_bucket.h"

namespace dedloc {

class StrangersCredit {
  public:
    static constexpr std::size_t peers_most = 512;

    // So many may fail at once, and so many a second in the long run.
    StrangersCredit(double burst, double per_s) : left_(burst, per_s) {}

    bool is_left(TimePoint now) { return left_.has(now); }
    bool has_failed(const PeerId& peer) const { return failed_.contains(peer); }
    void failed(const PeerId& peer, TimePoint now) {
        if (failed_.size() >= peers_most) failed_.clear();
        if (failed_.insert(peer).second) (void)left_.take(now);
    }
    void forgive(const PeerId& peer) { failed_.erase(peer); }

  private:
    TokenBucket left_;
    std::set<PeerId> failed_;
};

}  // namespace dedloc
