#include "dedloc/transport/yamux_window.h"

#include <algorithm>

namespace dedloc::transport {

namespace {

// A stream that uses half its window within this time is held back by the window whatever the
// measured round trip (which is taken on an idle link) says.
constexpr Duration fast_epoch_min = 4ms;
// The sender hears of so much new window at least, however large the window is.
constexpr std::uint32_t window_update_bytes = 512u << 10;

}  // namespace

std::uint32_t WindowBudget::grow(std::uint32_t window) {
    const std::size_t growth =
        std::min({std::size_t{window}, std::size_t{window_max_ - window}, growth_max_ - used_});
    const auto granted = static_cast<std::uint32_t>(growth);
    used_ += granted;
    largest_ = std::max(largest_, window + granted);
    return granted;
}

std::uint32_t WindowBudget::start_grown() {
    const std::size_t growth =
        std::min(std::size_t{largest_ - window_bytes_start}, (growth_max_ - used_) / 2);
    used_ += growth;
    return static_cast<std::uint32_t>(growth);
}

bool ReceiveWindow::open_again(std::size_t unread,
                               const std::function<TimePoint()>& now,
                               std::optional<Duration> round_trip,
                               WindowBudget& budget) {
    const std::uint64_t held = std::uint64_t{left_} + unread;
    const std::uint64_t used = max_ > held ? max_ - held : 0;
    if (used < std::min(max_ / 2, window_update_bytes)) return false;
    epoch_bytes_ += used;
    if (epoch_bytes_ >= max_ / 2) end_epoch(now(), round_trip, budget);
    const auto delta = static_cast<std::uint32_t>(max_ - held);
    left_ += delta;
    update_ += delta;
    return true;
}

// Half of the window was used: in so short a time that a larger one would be faster?
void ReceiveWindow::end_epoch(TimePoint now,
                              std::optional<Duration> round_trip,
                              WindowBudget& budget) {
    const Duration fast = std::max(fast_epoch_min, 4 * round_trip.value_or(Duration(0)));
    if (round_trip && now - epoch_start_ < fast) max_ += budget.grow(max_);
    epoch_start_ = now;
    epoch_bytes_ = 0;
}

bool ReceiveWindow::start_grown(WindowBudget& budget) {
    const std::uint32_t delta = budget.start_grown();
    max_ += delta;
    left_ += delta;
    update_ += delta;
    return delta > 0;
}

}  // namespace dedloc::transport
