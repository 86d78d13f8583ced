// Holes that a host punches: to whom just now, to whom later, and what came of them.

#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dedloc/base/peer_id.h"
#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {

class Punches {
  public:
    struct Counters {
        std::uint64_t tried = 0;
        std::uint64_t succeeded = 0;
        std::uint64_t reversals = 0;  // the peer was dialled back instead
    };
    // A peer that is in a set for as long as this lives.
    class Listed {
      public:
        Listed(std::set<PeerId>& all, PeerId peer) : all_(all), peer_(std::move(peer)) {}
        ~Listed() { all_.erase(peer_); }
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;

      private:
        std::set<PeerId>& all_;
        PeerId peer_;
    };

    // False: there are too many at once, or this peer's is under way.
    bool begin(const PeerId& peer) { return add(now_, peer); }
    bool begin_later(const PeerId& peer) { return add(later_, peer); }  // waits between attempts
    // The guard ends what begin() or begin_later() began when it is destroyed.
    Listed now(const PeerId& peer) { return {now_, peer}; }
    Listed later(const PeerId& peer) { return {later_, peer}; }
    bool is_under_way(const PeerId& peer) const { return now_.contains(peer); }

    // The peer asks for one. Returns how often it has, as far as that matters.
    int asked_by(const PeerId& peer) {
        int& attempts = asked_[peer];
        attempts = std::min(attempts + 1, 2 * punch_attempts_max);
        return attempts;
    }
    void forget(const PeerId& peer) { asked_.erase(peer); }

    void tried() { ++counters_.tried; }
    void succeeded() { ++counters_.succeeded; }
    void reversed() { ++counters_.reversals; }
    const Counters& counters() const { return counters_; }

  private:
    static bool add(std::set<PeerId>& peers, const PeerId& peer) {
        return peers.size() < punches_max && peers.insert(peer).second;
    }

    std::set<PeerId> now_;
    std::set<PeerId> later_;
    std::map<PeerId, int> asked_;
    Counters counters_;
};

}  // namespace dedloc::p2p
