// Hints at what a valid run file says in vain: keys that do nothing beside what else it says.
// Nothing is wrong with it, and all peers do the same; but whoever wrote the line believes that it
// does something.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <vector>

#include "dedloc/run/run_file.h"

namespace dedloc::run {

// A sentence each: "optimizer.momentum does nothing with adamw, …".
std::vector<std::string> hints_about(const RunFile& run);

}  // namespace dedloc::run
