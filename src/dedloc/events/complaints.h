// Complaints: which members broke the protocol, and how often. Each is told of, with the reason;
// but a member that sends nonsense as fast as it can does not fill anybody's log.
//
// Thread: the network thread. Limits: misbehaving_peers_max peers, misbehaviour_lines_per_s_max
// events about each in a second.

#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/events/teller.h"

namespace dedloc::events {

inline constexpr std::size_t misbehaving_peers_max = 256;         // peers
inline constexpr std::uint32_t misbehaviour_lines_per_s_max = 4;  // lines about one peer

class Complaints {
  public:
    explicit Complaints(Teller& teller) : teller_(teller) {}

    // Counts one more. `what`: InputRefused of a contribution or a piece of it, MessageRefused of
    // anything else that a member may not say.
    void add(const PeerId& peer, TimePoint now, std::string why, Any what = MessageRefused{});
    // The same if it broke the protocol: to be late or to stand elsewhere is no offence.
    void add_if_broken(const PeerId& peer, TimePoint now, const Error& why);
    std::uint64_t count(const PeerId& peer) const;

    // A peer that was complained of may not take over from leaders for a while: refused by all of
    // them, it believes that they have failed.
    void bar(const PeerId& peer, TimePoint now);
    bool is_barred(const PeerId& peer, TimePoint now) const;

  private:
    struct Entry {
        std::uint64_t all = 0;
        std::uint32_t lines = 0;  // since then
        TimePoint since;
        TimePoint barred_until;
    };

    Teller& teller_;
    std::map<PeerId, Entry> peers_;
};

}  // namespace dedloc::events
