// Promises: whether samples and time that others claim are counted on before any of them has
// brought something. Identities cost nothing, and one that claims much and brings nothing makes
// steps begin too early, of too few samples, or too late. Newcomers are believed until a few of
// them have let a step down; then each has to bring something first, and steps begin without it. A
// peer that was only late, and brings something to a later step, is no ghost.
//
// Pure. Thread: any. Limit: peers_most identities are remembered.

#pragma once
#include <algorithm>
#include <map>
#include <set>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::membership {

class Promises {
  public:
    // So many may be broken, and not kept since, before newcomers are believed no more. In a robust
    // run anybody may come, under any number of names; else only members do.
    static constexpr std::size_t broken_most = 32;
    static constexpr std::size_t broken_most_by_strangers = 4;
    static constexpr Duration remembered_for = std::chrono::minutes(4);
    static constexpr std::size_t peers_most = 512;

    explicit Promises(bool of_strangers)
        : broken_most_(of_strangers ? broken_most_by_strangers : broken_most) {}

    // `contributed`: to a certified step.
    bool are_believed(bool contributed, TimePoint now) {
        if (contributed) return true;
        std::erase_if(broken_,
                      [now](const auto& one) { return now - one.second > remembered_for; });
        return broken_.size() < broken_most_;
    }
    // `peer` works on the open step, or says how long that takes it, and has brought nothing yet.
    void made_by(const PeerId& peer) {
        if (open_.size() < peers_most) open_.insert(peer);
    }
    // The open step is certified; those who claimed and have still `contributed` nothing broke a
    // promise, until they have.
    template <typename Contributed>
    void step_made(Contributed contributed, TimePoint now) {
        for (const PeerId& peer : open_)
            if (broken_.size() < peers_most) broken_.try_emplace(peer, now);
        open_.clear();
        std::erase_if(broken_, [&](const auto& one) { return contributed(one.first); });
    }

  private:
    std::size_t broken_most_;
    std::set<PeerId> open_;
    std::map<PeerId, TimePoint> broken_;
};

}  // namespace dedloc::membership
