#include "dedloc/membership/pace.h"

#include <algorithm>
#include <cmath>

namespace dedloc::membership {
namespace {

// Weight of a new micro-batch, however long it took.
constexpr double smoothing_max = 0.2;
// A gap takes this many times as long as usual, and this long.
constexpr double gap_factor = 4;
constexpr double gap_min_s = 1;
// A micro-batch counts for no more than the window, or so many times what is usual: a machine that
// has become slower is believed within a few.
constexpr double slower_at_once_max = 10;

}  // namespace

// A process that was stopped has not become slow. Where gaps come often, they are how fast it is.
bool Pace::is_single_gap(double expected_s, double seconds) {
    const bool is_gap = seconds > std::max(gap_min_s, gap_factor * expected_s);
    const bool is_single = micro_batches_since_gap_ >= gaps_apart;
    micro_batches_since_gap_ = is_gap ? 0 : std::min(micro_batches_since_gap_ + 1, gaps_apart);
    return is_gap && is_single;
}

void Pace::add(double samples, double seconds) {
    const double of_one = seconds / samples;
    quickest_s_ = quickest_s_ > 0 ? std::min(quickest_s_, of_one) : of_one;
    const double before = samples_per_s();
    if (before > 0) {
        const double expected_s = samples / before;
        if (is_single_gap(expected_s, seconds)) return;
        seconds = std::min(seconds, std::max(pace_window_s, slower_at_once_max * expected_s));
    }
    // A process's first micro-batch also loads libraries and touches memory.
    const bool replaces_first = is_first_ && samples > before * seconds;
    is_first_ = before <= 0;
    const double kept =
        replaces_first ? 0 : std::max(std::exp(-seconds / pace_window_s), 1 - smoothing_max);
    samples_ = kept * samples_ + samples;
    seconds_ = kept * seconds_ + seconds;
    count_ = kept * count_ + 1;
}

}  // namespace dedloc::membership
