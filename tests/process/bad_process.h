// `dedloc-lab faults --bad sign_flip`: real processes of a robust run, one of which multiplies its
// gradients by -1000 and does not stop when it is told. `--bad collude`: two do so, from a step on
// at which both have weighed for long, and each finds the other one right.
//
// Failures are
//   it is not banned by certificates, or somebody else is, or on probation
//   a step doubles the loss of the others
//   it does not end by itself with a sentence that says so, or the others make no steps after that
//   started again with the same key, it is let in, or is not refused in words
//   two of the others have different states at one step
//   the audit finds anything, or an order that no evidence on disk proves
//
// Thread: one; it waits by sleeping. Errors: exit code 9 when anything failed, 6 for the disk.

#pragma once
#include "tests/process/faults.h"

namespace dedloc::lab {

int run_bad_process(const FaultsCommand& command);

}  // namespace dedloc::lab
