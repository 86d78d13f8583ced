// WatchTimeout: how long `dedloc watch` goes on while nobody answers, and what it says then: that
// the run is over, or that it is out of reach.
//
// A computer that slept, or a program that was stopped (Ctrl-Z), has heard nobody and is to blame
// itself: time between two looks that are far apart does not count, and after it the network needs
// a while. That the run is over is believed if those who answered last stood at its end, or had a
// moment before: the last of them may leave before its newest status comes.
//
// Thread: the owner's. Times are seconds of the wall clock, which goes on while a computer sleeps.

#pragma once
#include <limits>
#include <utility>

namespace dedloc::cli {

inline constexpr double watch_nobody_s = 15;     // then the run is out of reach
inline constexpr double watch_goodbyes_s = 2;    // then it is over, if it was at its end
inline constexpr double watch_at_end_s = 20;     // so long that is remembered of who answers
inline constexpr double watch_gap_s = 2;         // between looks: we were not there
inline constexpr double watch_after_gap_s = 60;  // connections need time to come back

class WatchTimeout {
  public:
    enum class End { none, over, out_of_reach };

    explicit WatchTimeout(double now) : looked_(now) {}

    // `answered`: somebody is there; `at_end`: they stand where the run stops.
    End observe(double now, bool answered, bool at_end) {
        double passed = now - std::exchange(looked_, now);
        if (passed < 0 || passed > watch_gap_s) {  // also a clock that was set
            passed = 0;
            after_gap_ = 0;
        }
        after_gap_ += passed;
        silent_ = answered ? 0 : silent_ + passed;
        if (answered) since_end_ = at_end ? 0 : since_end_ + passed;
        if (since_end_ <= watch_at_end_s) return silent_ > watch_goodbyes_s ? End::over : End::none;
        const bool lost = silent_ > watch_nobody_s && after_gap_ > watch_after_gap_s;
        return lost ? End::out_of_reach : End::none;
    }

  private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    double looked_;
    double silent_ = 0;
    double after_gap_ = never;
    double since_end_ = never;  // while somebody answered
};

}  // namespace dedloc::cli
