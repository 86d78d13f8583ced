// A plan for people's eyes in plain letters: a table, and a picture of who sends what to whom.
// plan_svg.h draws the same as SVG.
//
// Thread: any; pure.

#pragma once
#include <string>

#include "dedloc/planning/plan_file.h"

namespace dedloc::planning {

// Most rows of the table, and most peers of the picture if each has a column of its own.
inline constexpr std::size_t plan_rows_max = 40;
inline constexpr std::size_t plan_columns_max = 64;

std::string plan_table(const PlanFile& file, const planner::LoadPlan& plan);
std::string plan_picture(const PlanFile& file, const planner::LoadPlan& plan);
// One sentence a paragraph, broken at `columns`.
std::string plan_sentences(const planner::LoadPlan& plan, std::size_t columns);
// All of it, as `dedloc plan` prints it: first what suits the lines (light_advice.h).
std::string plan_text(const PlanFile& file, const planner::LoadPlan& plan, std::size_t columns);

}  // namespace dedloc::planning
