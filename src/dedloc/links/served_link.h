// ServedLink: what this peer's link sent since somebody asked last, and for how long it was busy
// with it. Looked at every now and then; what statuses and the like cost does not count.
//
// Pure. Thread: any.

#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "dedloc/base/time.h"

namespace dedloc::links {

struct Served {
    double bytes = 0;         // without talk; below zero: not even that
    double talk_bytes = 0;    // what talk may have been, at most
    double seconds = 0;       // in all
    double busy_seconds = 0;  // between calls that saw more than talk
};

class ServedLink {
  public:
    // `sent_bytes` since the process began; `talk_per_s`: bytes per second.
    void observe(std::uint64_t sent_bytes, TimePoint now, double talk_per_s) {
        const double seconds = to_seconds(now - std::exchange(observed_at_, now));
        const std::uint64_t before = std::exchange(sent_bytes_, sent_bytes);
        const double talk = talk_per_s * seconds;
        const double bytes = static_cast<double>(sent_bytes - std::min(before, sent_bytes)) - talk;
        since_.seconds += seconds;
        since_.talk_bytes += talk;
        since_.bytes += bytes;
        if (bytes > talk) since_.busy_seconds += seconds;
    }
    // And begins anew.
    Served take() { return std::exchange(since_, Served{}); }

  private:
    Served since_;
    std::uint64_t sent_bytes_ = 0;
    TimePoint observed_at_;
};

}  // namespace dedloc::links
