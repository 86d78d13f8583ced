// NewcomerWaits: which of those who have brought nothing yet a leader waits for. Identities cost
// nothing, and one that announces a step and never comes would cost each step its timeout.
//
// Each is waited for in a few rounds, and of all together in a few at once and one in a while: a
// newcomer with a slow line needs only one round to show that it is worth more. Newcomers that come
// in time delay nobody and cost nothing: of a robust run most members weigh nothing at first, and
// forty that begin together are waited for each round. A newcomer that still loads the state slows
// a leader who is alone for a minute, in which most have it: a run of short steps would be gone
// each time it comes. After that nobody waits for it.
//
// Pure. Thread: any. Limit: peers_most identities are remembered.

#pragma once
#include <cstdint>
#include <map>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/token_bucket.h"

namespace dedloc::averaging {

class NewcomerWaits {
  public:
    static constexpr std::uint32_t rounds_each = 4;
    static constexpr double burst = 32;
    static constexpr double per_s = 1.0 / 15;
    static constexpr std::size_t peers_most = 512;
    static constexpr Duration loading_for = std::chrono::seconds(60);
    static constexpr double loading_burst = 8;
    static constexpr double loading_per_s = 1.0 / 600;

    // In the round after the decision `previous`: the same answer each time it is asked. `leaders`:
    // so many take turns, and share the budget.
    bool waits_for(const PeerId& peer, const Digest& previous, std::size_t leaders, TimePoint now) {
        if (peers_.size() >= peers_most && !peers_.contains(peer)) peers_.clear();
        Newcomer& newcomer = peers_[peer];
        if (newcomer.rounds == 0 || newcomer.asked_after != previous) {
            newcomer.asked_after = previous;
            newcomer.tokens = newcomer.rounds < rounds_each ? take(leaders, now) : 0;
            ++newcomer.rounds;
        }
        return newcomer.tokens > 0;
    }

    // `peer` came before anybody had waited for it: it is a newcomer as on its first day.
    void came_in_time(const PeerId& peer) {
        const auto known = peers_.find(peer);
        if (known == peers_.end()) return;
        for (std::size_t i = 0; i < known->second.tokens; ++i) rounds_.give_back();
        peers_.erase(known);
    }

    // Is `peer` waited for, who has no state yet?
    bool waits_while_loading(const PeerId& peer, TimePoint now) {
        if (loading_.size() >= peers_most && !loading_.contains(peer)) loading_.clear();
        const auto [entry, is_new] = loading_.try_emplace(peer, now);
        if (is_new && !minutes_.acquire(now)) entry->second = now - loading_for;
        return now < entry->second + loading_for;
    }

    // `peer` has the state; should it lose the state, its minute begins anew.
    void has_state(const PeerId& peer) { loading_.erase(peer); }

  private:
    struct Newcomer {
        std::uint32_t rounds = 0;
        Digest asked_after{};
        std::size_t tokens = 0;  // that the wait of this round took; 0: nobody waits
    };

    // Takes the tokens of one round, one for each leader, or as many as are left; returns how many.
    std::size_t take(std::size_t leaders, TimePoint now) {
        std::size_t taken = 0;
        while (taken < leaders && rounds_.acquire(now)) ++taken;
        return taken;
    }

    TokenBucket rounds_{burst, per_s};
    std::map<PeerId, Newcomer> peers_;
    TokenBucket minutes_{loading_burst, loading_per_s};
    std::map<PeerId, TimePoint> loading_;  // since when they are waited for
};

}  // namespace dedloc::averaging
