// The real clock: CLOCK_BOOTTIME and one Asio timer for all waits.
//
// Asio's timer runs on CLOCK_MONOTONIC, which stands still while the machine sleeps, so the queue
// of deadlines is ours and is looked at least once a second: a laptop that wakes up finds at once
// which deadlines have passed.
//
// Cost: O(log n) a timer. Thread: now() any, the rest the loop's.

#include <asio/steady_timer.hpp>
#include <map>
#include <time.h>
#include <utility>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {

namespace {

constexpr Duration recheck_interval_max = std::chrono::seconds(1);

Duration read_clock(clockid_t which) {
    timespec spec{};
    clock_gettime(which, &spec);
    return std::chrono::seconds(spec.tv_sec) + std::chrono::nanoseconds(spec.tv_nsec);
}

class RealClock final : public Clock {
  public:
    explicit RealClock(Executor executor) : queue_(std::make_shared<Queue>(std::move(executor))) {}
    ~RealClock() override {
        queue_->timers.clear();
        queue_->timer.cancel();
    }

    TimePoint now() const override { return TimePoint{read_clock(CLOCK_BOOTTIME)}; }
    WallSeconds wall_now() const override { return to_seconds(read_clock(CLOCK_REALTIME)); }

    TimerId call_at(TimePoint deadline, std::function<void()> action) override {
        if (deadline == TimePoint::never()) return 0;
        return queue_->add(deadline, std::move(action));
    }
    void cancel_timer(TimerId timer) override { queue_->remove(timer); }

  private:
    // Shared with the pending Asio wait, which may outlive the clock.
    struct Queue : std::enable_shared_from_this<Queue> {
        explicit Queue(Executor executor) : timer(std::move(executor)) {}

        TimerId add(TimePoint deadline, std::function<void()> action) {
            const TimerId id = next_id++;
            timers.emplace(std::pair(deadline, id), std::move(action));
            deadlines.emplace(id, deadline);
            if (timers.begin()->first.second == id) arm();
            return id;
        }

        void remove(TimerId id) {
            const auto found = deadlines.find(id);
            if (found == deadlines.end()) return;
            timers.erase(std::pair(found->second, id));
            deadlines.erase(found);
            // The Asio wait stays: it finds nothing due and arms itself for the next one.
            if (timers.empty()) timer.cancel();
        }

        void arm() {
            const TimePoint now{read_clock(CLOCK_BOOTTIME)};
            Duration wait = timers.begin()->first.first - now;
            if (wait < Duration::zero()) wait = Duration::zero();
            if (wait > recheck_interval_max) wait = recheck_interval_max;
            timer.expires_after(wait);
            timer.async_wait([self = shared_from_this()](std::error_code error) {
                if (!error) self->fire();
            });
        }

        void fire() {
            const TimePoint now{read_clock(CLOCK_BOOTTIME)};
            // New timers of the actions that are due already wait for the next turn of the loop.
            const TimerId newest = next_id;
            while (!timers.empty() && timers.begin()->first.first <= now &&
                   timers.begin()->first.second < newest) {
                auto action = std::move(timers.begin()->second);
                deadlines.erase(timers.begin()->first.second);
                timers.erase(timers.begin());
                action();
            }
            if (!timers.empty()) arm();
        }

        asio::steady_timer timer;
        std::map<std::pair<TimePoint, TimerId>, std::function<void()>> timers;
        std::map<TimerId, TimePoint> deadlines;
        TimerId next_id = 1;
    };

    std::shared_ptr<Queue> queue_;
};

}  // namespace

std::unique_ptr<Clock> real_clock(Executor executor) {
    return std::make_unique<RealClock>(std::move(executor));
}

}  // namespace dedloc::runtime
