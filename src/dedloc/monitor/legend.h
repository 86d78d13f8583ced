// The legend of the terminal view: what its lines, columns, colours and marks mean.
//
// Thread: any; pure.

#pragma once
#include <cstddef>
#include <vector>

#include "dedloc/monitor/lines.h"

namespace dedloc::monitor {

inline constexpr char legend_key = '?';

// At most `height` lines of at most `width` columns; the last ones give way.
std::vector<Line> legend(std::size_t width, std::size_t height);

}  // namespace dedloc::monitor
