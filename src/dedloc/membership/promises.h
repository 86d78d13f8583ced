// Promises: whether samples and time that others claim are counted on before any of them has
// brought something. Identities cost nothing, and one that claims much and brings nothing makes
// steps begin too early, of too few samples. Newcomers are believed until many of them have let a
// step down; then each has to bring something first.
//
// Pure. Thread: any. Limit: peers_most identities are remembered.

#pragma once
#include <set>

#include "dedloc/base/strangers_credit.h"

namespace dedloc::membership {

class Promises {
  public:
    static constexpr double burst = 32;
    static constexpr double per_s = 1.0 / 15;
    static constexpr std::size_t peers_most = StrangersCredit::peers_most;

    // `contributed`: to a certified step.
    bool are_believed(bool contributed, TimePoint now) {
        return contributed || credit_.is_left(now);
    }
    // It claims samples for the open step, and has brought nothing to any.
    void made_by(const PeerId& peer) {
        if (open_.size() < peers_most) open_.insert(peer);
    }
    // The open step is certified; those who claimed and have still `contributed` nothing broke a
    // promise, which counts once of each.
    template <typename Contributed>
    void step_made(Contributed contributed, TimePoint now) {
        for (const PeerId& peer : open_)
            if (!contributed(peer)) credit_.failed(peer, now);
        open_.clear();
    }

  private:
    StrangersCredit credit_{burst, per_s};
    std::set<PeerId> open_;
};

}  // namespace dedloc::membership
