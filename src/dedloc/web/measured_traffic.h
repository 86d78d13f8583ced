// MeasuredTraffic: what this peer's connections carried to and from each peer in the last seconds,
// from counters that only grow.
//
// Thread: one. Cost: an addition O(peers). Limits: traffic_looks_max looks.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::web {

inline constexpr double traffic_window_s = 10;
inline constexpr double traffic_look_s = 1;  // looks that are nearer to each other count as one
inline constexpr std::size_t traffic_looks_max = 12;

// Counters of a peer: bytes over all connections to it so far.
struct Carried {
    PeerId peer;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
};

class MeasuredTraffic {
  public:
    struct Moved {
        double seconds = 0;
        double sent_bytes = 0;
        double received_bytes = 0;
    };

    void add(WallSeconds now, const std::vector<Carried>& carried);
    // Returns the peers that both the newest look and an older one have; most bytes first.
    std::vector<std::pair<PeerId, Moved>> moved() const;

  private:
    struct Seen {
        WallSeconds time = 0;
        std::map<PeerId, Carried> peers;
    };
    std::deque<Seen> seen_;  // oldest first; the last is the newest look, however near
};

}  // namespace dedloc::web
