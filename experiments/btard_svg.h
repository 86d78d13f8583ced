// The picture of `lab btard`: accuracy over steps, one panel an attack, one line a reducer.
#pragma once
#include <string>
#include <vector>

#include "experiments/btard_run.h"

namespace dedloc::lab {

std::string btard_svg(const std::vector<BtardRow>& rows, const BtardCommand& command);

}  // namespace dedloc::lab
