// A split in one sentence for people: who reduces how much, why the others do not, what sets the
// time. Names are the caller's; without names peers are numbered from 0.
//
// Thread: any; pure.

#pragma once
#include <span>
#include <string>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

std::string explain(const Split& split,
                    std::span<const PeerRates> peers,
                    std::span<const LinkLimit> links = {},
                    std::span<const std::string> names = {});

// "0.716 s", "35.8 s", "12.3 min": three digits.
std::string duration_text(double seconds);

}  // namespace dedloc::planner
