// Names of the bugs that can be planted (consensus::PlantedBugs), as the command line says them.

#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/consensus/paxos.h"

namespace dedloc::lab {

std::vector<std::string> planted_names();
std::optional<consensus::PlantedBugs> planted_bug(std::string_view name);

}  // namespace dedloc::lab
