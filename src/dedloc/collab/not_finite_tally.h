// NotFiniteTally: samples that are left out because they are not finite. They are told of once for
// many: a model that has blown up gives nothing else.
//
// Thread: add() and all() any; to_tell() one.

#pragma once
#include <atomic>
#include <cstdint>

#include "dedloc/base/time.h"

namespace dedloc::collab {

inline constexpr Duration not_finite_pause = std::chrono::seconds(5);  // between two events

class NotFiniteTally {
  public:
    void add(std::uint64_t samples) { all_ += samples; }
    std::uint64_t all() const { return all_; }
    // Samples that are new, if it is time to tell of them; else 0.
    std::uint64_t to_tell(TimePoint now) {
        const std::uint64_t all = all_;
        if (all == told_ || (told_ > 0 && now < told_at_ + not_finite_pause)) return 0;
        const std::uint64_t fresh = all - told_;
        told_ = all;
        told_at_ = now;
        return fresh;
    }

  private:
    std::atomic<std::uint64_t> all_{0};
    std::uint64_t told_ = 0;
    TimePoint told_at_;
};

}  // namespace dedloc::collab
