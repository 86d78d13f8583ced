// Failures that --quiet must not hide: those of this peer that people have to mend (a checkpoint
// that could not be saved, votes that could not be written). They go to standard error.
//
// Each kind of failure is told at its first time, and while it goes on once a minute, with the
// number of those in between.
//
// Thread: one. Pure: who calls says the time and prints.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dedloc/events/events.h"

namespace dedloc::peer {

inline constexpr double failure_told_every_s = 60;

class QuietFailures {
  public:
    // The line to print, if any. `now`: steady seconds.
    std::optional<std::string> observe(const events::Event& event, double now);

  private:
    struct Told {
        double at = 0;
        std::uint64_t since = 0;  // more of its kind
    };
    std::map<std::string, Told, std::less<>> told_;
};

}  // namespace dedloc::peer
