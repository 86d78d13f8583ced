// How many chunks of a state are asked for at the same time, and how long each is waited for: fewer
// and longer while our own line is too slow for what was asked.

#pragma once
#include <cstddef>
#include <optional>

#include "dedloc/base/time.h"

namespace dedloc::state {

inline constexpr std::size_t lanes_allowed_max = 64;
inline constexpr Duration chunk_timeout_max = 240s;

class ChunkAllowance {
  public:
    explicit ChunkAllowance(Duration timeout) : timeout_(timeout) {}

    bool may_ask() const { return active_ < allowed_; }
    bool is_one_at_a_time() const { return allowed_ <= 1; }
    Duration timeout() const { return timeout_; }

    void asked() { ++active_; }
    void ended() { --active_; }
    // A chunk came in time.
    void more();
    // None came on a lane. Chunks that were asked for together are given up together: that is one
    // sign, not many.
    void less(TimePoint now);

  private:
    Duration timeout_;
    std::size_t active_ = 0;
    std::size_t allowed_ = lanes_allowed_max;
    std::optional<TimePoint> less_since_;
};

}  // namespace dedloc::state
