// The most that was moved within a second.

#pragma once
#include <algorithm>
#include <cstddef>

#include "dedloc/base/time.h"

namespace dedloc::transport {

class RateMeter {
  public:
    void moved(std::size_t bytes, TimePoint now) {
        bytes_ += bytes;
        const Duration took = now - began_;
        if (took < window) return;
        // After a long silence the window says nothing: it only begins a new one.
        if (took < 2 * window)
            peak_ = std::max(peak_, static_cast<double>(bytes_) / to_seconds(took));
        bytes_ = 0;
        began_ = now;
    }
    double bytes_per_s_peak() const { return peak_; }

  private:
    static constexpr Duration window = 1s;  // rates are measured over so long at least

    TimePoint began_;
    std::size_t bytes_ = 0;
    double peak_ = 0;
};

}  // namespace dedloc::transport
