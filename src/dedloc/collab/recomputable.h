// Whether the contributions of a run can be checked: can others compute this learner's gradients
// again, and would they find the same numbers?
//
// Thread: the learner's. Errors: bad_input, a sentence that names the key of the run file.

#pragma once
#include "dedloc/collab/learner.h"
#include "dedloc/run/run_file.h"

namespace dedloc::collab {

Ok check_recomputable(const run::RunFile& run, Learner& learner, const PeerId& self);

}  // namespace dedloc::collab
