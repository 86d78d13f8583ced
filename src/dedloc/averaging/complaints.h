// Complaints: which members broke the protocol in rounds, and how often. Whoever is annoyed writes
// a line about it, but a member that sends nonsense as fast as it can does not fill anybody's log.
//
// Thread: the network thread. Cost: a lookup among the few peers that were complained of.

#pragma once
#include <algorithm>
#include <map>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::averaging {

inline constexpr std::size_t complained_of_max = 256;     // peers
inline constexpr std::uint32_t complaints_per_s_max = 4;  // lines about one peer

class Complaints {
  public:
    // Counts one more; true: it is worth a line.
    bool add(const PeerId& peer, TimePoint now) {
        if (!peers_.contains(peer) && peers_.size() >= complained_of_max) {
            const auto oldest =
                std::min_element(peers_.begin(), peers_.end(), [](const auto& a, const auto& b) {
                    return a.second.since < b.second.since;
                });
            peers_.erase(oldest);
        }
        Entry& entry = peers_[peer];
        ++entry.all;
        if (now - entry.since >= Duration(1s)) {
            entry.since = now;
            entry.lines = 0;
        }
        return ++entry.lines <= complaints_per_s_max;
    }
    std::uint64_t count(const PeerId& peer) const {
        const auto found = peers_.find(peer);
        return found == peers_.end() ? 0 : found->second.all;
    }

    // One that was complained of may not take over from leaders for a while: refused by all of
    // them, it believes that they have failed.
    void bar(const PeerId& peer, TimePoint now) {
        const auto found = peers_.find(peer);
        if (found != peers_.end()) found->second.barred_until = now + barred_for;
    }
    bool is_barred(const PeerId& peer, TimePoint now) const {
        const auto found = peers_.find(peer);
        return found != peers_.end() && now < found->second.barred_until;
    }

  private:
    static constexpr Duration barred_for = std::chrono::seconds(10);
    struct Entry {
        std::uint64_t all = 0;
        std::uint32_t lines = 0;  // since then
        TimePoint since;
        TimePoint barred_until;
    };
    std::map<PeerId, Entry> peers_;
};

}  // namespace dedloc::averaging
