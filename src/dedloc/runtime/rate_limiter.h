// RateLimiter: a token bucket for one way of a line. Whoever moves bytes over it asks first and
// waits in order, so connections that share it get the same.
//
// The bucket holds what the rate gives in burst_time, but burst_bytes_min at least: over any time t
// no more than rate × t + that goes. Who wants to move much asks for portion() bytes at a time:
// then a small message of another connection waits for one portion of each of those before it, as
// on a line of that rate.
//
// Thread: the network thread. Cost: without a rate a comparison; with one a timer for each portion
// that has to wait. Cancel: who waits leaves nothing behind.

#pragma once
#include <cstddef>
#include <memory>

#include "dedloc/base/time.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

// A bucket holds this: shorter, and a process that is woken late loses some of its rate.
inline constexpr Duration burst_time{50'000'000};
inline constexpr std::size_t burst_bytes_min = 16u << 10;  // a TLS record
// A request asks for this at once: longer, and small messages wait; shorter, and it is all timers.
inline constexpr Duration portion_time{10'000'000};
inline constexpr std::size_t portion_bytes_min = 4u << 10;
inline constexpr std::size_t portion_bytes_max = 128u << 10;  // a batch of p2p's

class RateLimiter {
  public:
    // Where one way of a connection waits; at most one at a time does.
    class Place {
      public:
        // A waiting sender goes on at once and pays nothing: its connection is closed.
        void leave() {
            if (waiting_) waiting_->resume();
        }

      private:
        friend class RateLimiter;
        std::shared_ptr<Parked> waiting_;
    };

    explicit RateLimiter(Clock& clock);
    ~RateLimiter();
    RateLimiter(const RateLimiter&) = delete;
    RateLimiter& operator=(const RateLimiter&) = delete;

    // Bytes per second; 0: no limit, and who waits goes on. A bucket begins full.
    void set_rate(double bytes_per_s);
    bool limits() const;
    std::size_t portion() const;
    // Returns when so many bytes may go. More than the bucket holds are a debt, paid by who is
    // next.
    Task<void> wait(std::size_t bytes, Place& place);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace dedloc::runtime
