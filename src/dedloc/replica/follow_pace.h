// FollowPace: can this peer's line bring it the steps that the others make? One whose line cannot
// loads the state again and again, and is behind each time.
//
// Thread: one. Pure.

#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "dedloc/base/time.h"

namespace dedloc::replica {

class FollowPace {
  public:
    static constexpr Duration looked_for = std::chrono::seconds(60);   // until it is judged
    static constexpr Duration told_every = std::chrono::seconds(300);  // while it stays so
    static constexpr Duration hopeless_after = std::chrono::minutes(10);
    static constexpr std::uint64_t steps_least = 3;  // in which nothing was caught up

    struct TooSlow {
        double step_s = 0;
        double needed_bytes_per_s = 0;
        double came_bytes_per_s = 0;
        bool hopeless = false;  // for long
    };

    // `own`: the step that our state stands at; `newest`: that of those who are ahead;
    // `received_bytes`: since the process began; `average_bytes`: what one step takes to follow.
    // Nothing: it follows, or has been told lately.
    std::optional<TooSlow> observe(std::uint64_t own,
                                   std::uint64_t newest,
                                   std::uint64_t received_bytes,
                                   double average_bytes,
                                   TimePoint now) {
        if (newest <= own + 1) {
            mark_.reset();
            slow_since_.reset();
            return std::nullopt;
        }
        const Mark before = mark_.value_or(Mark{now, newest, received_bytes});
        if (!mark_) mark_ = before;
        if (now < before.at + looked_for) return std::nullopt;
        mark_ = Mark{now, newest, received_bytes};
        const double seconds = to_seconds(now - before.at);
        const std::uint64_t steps = newest - std::min(newest, before.newest);
        TooSlow slow;
        slow.needed_bytes_per_s = static_cast<double>(steps) * average_bytes / seconds;
        slow.came_bytes_per_s = static_cast<double>(received_bytes - before.received) / seconds;
        if (steps < steps_least || slow.came_bytes_per_s >= slow.needed_bytes_per_s) {
            slow_since_.reset();
            return std::nullopt;
        }
        if (!slow_since_) slow_since_ = before.at;
        slow.step_s = seconds / static_cast<double>(steps);
        slow.hopeless = now >= *slow_since_ + hopeless_after;
        if (told_at_ && now < *told_at_ + told_every && !slow.hopeless) return std::nullopt;
        told_at_ = now;
        return slow;
    }

  private:
    struct Mark {
        TimePoint at;
        std::uint64_t newest = 0;
        std::uint64_t received = 0;
    };
    std::optional<Mark> mark_;  // while it is behind
    std::optional<TimePoint> slow_since_;
    std::optional<TimePoint> told_at_;
};

}  // namespace dedloc::replica
