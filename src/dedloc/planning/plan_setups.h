// The networks of examples/plans/, put into the program when it is built.

#pragma once
#include <span>
#include <string_view>

namespace dedloc::planning {

struct PlanSetup {
    std::string_view name;  // of the file, without .toml
    std::string_view text;
};
std::span<const PlanSetup> plan_setups();

}  // namespace dedloc::planning
