// A split in one sentence for people: who reduces how much, why the others do not, what sets the
// time. Names are those of the options.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// wanted_parts: the parts before those below the minimum went to others; empty: the same.
std::string explain(const Split& split,
                    std::span<const PeerRates> peers,
                    const SplitOptions& options = {},
                    std::span<const std::uint64_t> wanted_parts = {});

// "0.716 s", "35.8 s", "12.3 min": three digits.
std::string duration_text(double seconds);

}  // namespace dedloc::planner
