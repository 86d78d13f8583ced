// The clock as a parameter: real time on sockets, virtual time in the simulator.
//
// Thread: the node's network thread, except now(), which any thread may call.

#pragma once
#include "dedloc/base/time.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

class Clock {
  public:
    virtual ~Clock() = default;

    // Monotonic; keeps counting while the machine sleeps (CLOCK_BOOTTIME). In the simulator every
    // node has its own offset and drift.
    virtual TimePoint now() const = 0;

    // Seconds since 1970; only for DHT expirations, tokens and logs.
    virtual WallSeconds wall_now() const = 0;

    // Returns once now() >= deadline (at once if it already is; TimePoint::never() only ends by
    // cancellation).
    virtual Task<void> sleep_until(TimePoint deadline) = 0;

    Task<void> sleep_for(Duration duration) { return sleep_until(now() + duration); }
};

}  // namespace dedloc::runtime
