// TableClock: the wall time by which the records of a table expire. Nodes ask each other what time
// it is, and each takes the middle of what it heard and of its own, the later one of two: so a
// computer whose clock is wrong declares and reads by the time of the others. Between two looks it
// goes on by the monotonic clock, so that a clock that is set does not move it.
//
// Until anybody has answered it is this computer's own. Bounded: peers_heard_max answers, each for
// heard_for. Thread: the network thread. Time is a parameter.

#pragma once
#include <map>
#include <optional>

#include "dedloc/base/peer_id.h"
#include "dedloc/runtime/clock.h"

namespace dedloc::dht {

class TableClock {
  public:
    static constexpr std::size_t peers_heard_max = 64;              // a middle of more says no more
    static constexpr Duration heard_for = std::chrono::minutes(5);  // some looks

    explicit TableClock(runtime::Clock& clock) : clock_(clock) {}

    // A peer's clock showed `difference` seconds more than ours just now.
    void heard(const PeerId& peer, double difference);
    void agree();
    // Somebody's differs from ours by more than records that are made again soon can bear.
    bool disputed() const;

    WallSeconds now() const;
    // This must be added to our clock to have the table's time.
    double difference() const { return now() - clock_.wall_now(); }

  private:
    // Wall time when the monotonic clock was 0: the same for all whose clocks agree.
    double own_start() const { return clock_.wall_now() - to_seconds(clock_.now().since_start); }
    struct Heard {
        double start = 0;
        TimePoint at;
    };

    runtime::Clock& clock_;
    std::map<PeerId, Heard> heard_;
    std::optional<double> start_;
};

}  // namespace dedloc::dht
