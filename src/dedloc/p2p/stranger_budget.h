// StrangerBudget: what strangers may cost the one network thread, and the line.
//
// A stranger is anybody who has not shown that it belongs here: a membership protects its members
// (Host::protect). What strangers ask is answered as before, but its cost is counted for the peer,
// for its network (IPv4 /24, IPv6 /48) and for all strangers together; whoever is beyond its share
// is not read from until it has waited for it, so that TCP holds it back. Nobody is refused, and
// members wait for nothing.
//
// When all strangers together are beyond their share, an address that asked little lately still
// gets a few answers at once: a newcomer says hello although others flood. These, too, have a
// bound for all together.
//
// Costs are stated (limits.h), not measured, so that the simulator repeats them.
//
// Thread: one. Cost: three map look-ups. Memory: bounded by stranger_meters_max. The shares are in
// stranger_budget.cpp.

#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "dedloc/base/time.h"

namespace dedloc::p2p {

class StrangerBudget {
  public:
    struct Asker {
        std::string peer;     // its id in bytes; empty before it has shown one
        std::string address;  // an IP literal, or what stands for one: the id of a relay
    };
    struct Cost {
        Duration work{0};       // of the network thread
        std::size_t bytes = 0;  // on the line
    };

    void spend(const Asker& asker, const Cost& cost, TimePoint now);
    // How long this one has to wait now; zero: it may go on. What is waited for may be taken by
    // another meanwhile: ask again.
    Duration wait(const Asker& asker, TimePoint now) const;

    // One second pays for this, and so much may be spent before anybody waits.
    struct Share {
        std::int64_t work_part;  // one part of so many
        Duration work_burst;
        std::size_t bytes_per_s;
        std::size_t bytes_burst;
    };

  private:
    // Until when what was spent is paid off.
    struct Meter {
        TimePoint work{Duration(0)};
        TimePoint bytes{Duration(0)};

        void spend(const Share& share, const Cost& cost, TimePoint now);
        Duration over(const Share& share, TimePoint now) const;
    };
    using Meters = std::map<std::string, Meter>;

    static Duration over(const Meters& meters,
                         const std::string& key,
                         const Share& share,
                         TimePoint now);
    static Meter& meter_of(Meters& meters, const std::string& key, TimePoint now);
    bool goes_first(const std::string& address, TimePoint now) const;

    Meter all_;
    Meter all_first_;  // of those who go before others
    Meters peers_;
    Meters networks_;
    Meters addresses_;  // what each had of going first
};

}  // namespace dedloc::p2p
