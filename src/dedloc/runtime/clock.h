// The clock as a parameter: real time on sockets, virtual time in the simulator.
//
// Thread: the node's network thread, except now() and wall_now(), which any thread may call.

#pragma once
#include <cstdint>
#include <functional>

#include "dedloc/base/time.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

// Names one call_at; never reused, 0 is nobody.
using TimerId = std::uint64_t;

class Clock {
  public:
    virtual ~Clock() = default;

    // Monotonic; keeps counting while the machine sleeps (CLOCK_BOOTTIME). In the simulator every
    // node has its own offset and drift.
    virtual TimePoint now() const = 0;

    // Seconds since 1970; only for DHT expirations, tokens and logs.
    virtual WallSeconds wall_now() const = 0;

    // Calls `action` once on the network thread, from the loop, when now() >= deadline; never for
    // TimePoint::never(). What waits is built on this; protocols use sleep_until and Tasks.
    virtual TimerId call_at(TimePoint deadline, std::function<void()> action) = 0;
    // The action is not called any more. Harmless if it was already.
    virtual void cancel_timer(TimerId timer) = 0;

    // Returns once now() >= deadline (at once if it already is; TimePoint::never() only ends by
    // cancellation).
    Task<void> sleep_until(TimePoint deadline);
    Task<void> sleep_for(Duration duration) { return sleep_until(now() + duration); }
};

// Cancels its timer when it goes out of scope.
class TimerGuard {
  public:
    TimerGuard(Clock& clock, TimerId timer) : clock_(clock), timer_(timer) {}
    ~TimerGuard() { clock_.cancel_timer(timer_); }
    TimerGuard(const TimerGuard&) = delete;
    TimerGuard& operator=(const TimerGuard&) = delete;

  private:
    Clock& clock_;
    TimerId timer_;
};

}  // namespace dedloc::runtime
