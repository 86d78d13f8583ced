// Replayable: can one process compute the contributions of a run again, from nothing but its
// states and the sample numbers in its certificates? Replay and equivalence ask this first.
//
// Thread: any; pure.

#pragma once
#include "dedloc/base/result.h"
#include "dedloc/run/run_file.h"

namespace dedloc::lab {

// Errors: bad_input: what a contribution follows from beside them.
Ok check_replayable(const run::RunFile& run);

}  // namespace dedloc::lab
