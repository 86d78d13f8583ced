// A plan as a drawing: contributors on the left send their gradients to the owners of parts in the
// middle, who send the averages to the receivers on the right. Widths are bytes; what stays on a
// machine is drawn pale. Full links are red.
//
// Thread: any; pure.

#pragma once
#include <string>

#include "dedloc/planning/plan_file.h"

namespace dedloc::planning {

// Most peers that are drawn one by one, and most boxes of a column.
inline constexpr std::size_t plan_boxes_max = 40;

std::string plan_svg(const PlanFile& file, const planner::LoadPlan& plan);

}  // namespace dedloc::planning
