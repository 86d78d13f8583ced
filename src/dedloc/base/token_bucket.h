// TokenBucket: so many at once, and then so many a second, of something that others can cause.
//
// Pure. Thread: any.

#pragma once
#include <algorithm>
#include <optional>

#include "dedloc/base/time.h"

namespace dedloc {

class TokenBucket {
  public:
    // Full at first.
    TokenBucket(double burst, double per_s) : burst_(burst), per_s_(per_s), tokens_(burst) {}

    // False: there is none left for now.
    bool acquire(TimePoint now) {
        fill(now);
        if (tokens_ < 1) return false;
        tokens_ -= 1;
        return true;
    }
    // A token comes back where what it was taken for did not happen.
    void give_back() { tokens_ = std::min(burst_, tokens_ + 1); }
    bool has(TimePoint now) {
        fill(now);
        return tokens_ >= 1;
    }
    bool is_full(TimePoint now) {
        fill(now);
        return tokens_ >= burst_;
    }

  private:
    void fill(TimePoint now) {
        if (at_ && now > *at_)
            tokens_ = std::min(burst_, tokens_ + to_seconds(now - *at_) * per_s_);
        at_ = now;
    }

    double burst_;
    double per_s_;
    double tokens_;
    std::optional<TimePoint> at_;  // a clock may begin at zero
};

}  // namespace dedloc
