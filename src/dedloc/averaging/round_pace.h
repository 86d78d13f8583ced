// RoundPace: how long rounds take, from the plan to the certificate, smoothed; deadlines follow it.
//
// A round in which somebody failed (peer_score.h) took what was waited for, which is the deadline:
// counted, it would make the next one longer. Where there are no other rounds the links have become
// slower than the deadline thinks, and they count.
//
// Pure. Thread: any.

#pragma once
#include <cstdint>

#include "dedloc/base/time.h"

namespace dedloc::averaging {

class RoundPace {
  public:
    // Called with each decision; `took` zero: we were in no round of it.
    void learn(Duration took, bool undisturbed) {
        disturbed_ = undisturbed ? 0 : disturbed_ + 1;
        if (disturbed_ > 0 && disturbed_ <= disturbed_rounds_max) return;
        if (took.count() == 0) return;
        usual_ = smoothed(usual_, took);
    }
    // Zero before the first.
    Duration usual() const { return usual_; }

  private:
    static constexpr std::uint32_t disturbed_rounds_max = 2;  // in a row, that do not count

    Duration usual_{0};
    std::uint32_t disturbed_ = 0;
};

}  // namespace dedloc::averaging
