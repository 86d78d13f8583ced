// Receive windows of yamux streams: how much the peer may send, when it hears of more, and how far
// a window grows where a larger one would be faster.

#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "dedloc/base/time.h"
#include "dedloc/transport/limits.h"

namespace dedloc::transport {

// How far the windows of all streams of one session may grow.
class WindowBudget {
  public:
    // One window grows to `window_max`, all together by `growth_max` beyond their start.
    WindowBudget(std::uint32_t window_max, std::size_t growth_max)
        : window_max_(window_max), growth_max_(growth_max) {}

    // Returns by how much a window of this size grows: it doubles, where there is so much left.
    std::uint32_t grow(std::uint32_t window);
    // By how much a new stream's window begins larger: as large as the largest had to become. It
    // gets half of what is left at most, so that it is not the only one.
    std::uint32_t start_grown();
    void give_back(std::size_t growth) { used_ -= growth; }

  private:
    std::uint32_t window_max_;
    std::size_t growth_max_;
    std::size_t used_ = 0;
    std::uint32_t largest_ = window_bytes_start;
};

// One stream's.
class ReceiveWindow {
  public:
    explicit ReceiveWindow(TimePoint now) : epoch_start_(now) {}

    // The peer may send so much more.
    std::uint32_t left() const { return left_; }
    void consume(std::uint32_t bytes) { left_ -= bytes; }

    // Opens the window again once a good piece of it was read (to wait for half of a large one
    // would leave the sender without window for half of the time), and doubles it when half of it
    // went fast. `unread` bytes still wait. True: the peer should hear of it.
    bool open_again(std::size_t unread,
                    const std::function<TimePoint()>& now,
                    std::optional<Duration> round_trip,
                    WindowBudget& budget);
    // The same for a new stream that may start larger than others.
    bool start_grown(WindowBudget& budget);
    // Returns what the peer has not heard of yet.
    std::uint32_t take_update() { return std::exchange(update_, 0); }
    // Beyond its start; WindowBudget::give_back() wants it in the end.
    std::size_t growth() const { return max_ - window_bytes_start; }

  private:
    void end_epoch(TimePoint now, std::optional<Duration> round_trip, WindowBudget& budget);

    std::uint32_t left_ = window_bytes_start;
    std::uint32_t max_ = window_bytes_start;  // what we aim at
    std::uint32_t update_ = 0;
    TimePoint epoch_start_;
    std::uint64_t epoch_bytes_ = 0;  // read since
};

}  // namespace dedloc::transport
