// A plan for programs: one JSON object on one line. docs/plan.md lists the fields.

#pragma once
#include <string>

#include "dedloc/planning/plan_file.h"

namespace dedloc::planning {

// Most peers that are listed one by one.
inline constexpr std::size_t plan_json_peers_max = 1000;

std::string plan_json(const PlanFile& file, const planner::LoadPlan& plan);

}  // namespace dedloc::planning
