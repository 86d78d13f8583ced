// Durations and points of time. Types only: reading a clock is runtime::Clock's business.

#pragma once
#include <chrono>
#include <cstdint>

namespace dedloc::base {

using Duration = std::chrono::nanoseconds;

// A point on the process's monotonic clock, which keeps counting while the machine sleeps. Never
// sent to another peer: messages carry durations.
struct TimePoint {
    Duration since_start{0};

    friend auto operator<=>(const TimePoint&, const TimePoint&) = default;
    friend TimePoint operator+(TimePoint t, Duration d) { return {t.since_start + d}; }
    friend TimePoint operator-(TimePoint t, Duration d) { return {t.since_start - d}; }
    friend Duration operator-(TimePoint a, TimePoint b) { return a.since_start - b.since_start; }

    static constexpr TimePoint never() { return {Duration::max()}; }
};

inline double to_seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}
inline Duration from_seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// The mean of what was measured of something, the newest counting a quarter; 0: nothing before.
inline Duration smoothed(Duration before, Duration newest) {
    return before.count() == 0 ? newest : (before * 3 + newest) / 4;
}

// Seconds since 1970 of the DHT's expirations and of tokens; the only wall time there is.
using WallSeconds = double;

}  // namespace dedloc::base

namespace dedloc {
using base::Duration;
using base::from_seconds;
using base::smoothed;
using base::TimePoint;
using base::to_seconds;
using base::WallSeconds;
using namespace std::chrono_literals;
}  // namespace dedloc
