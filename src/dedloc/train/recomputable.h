// Whether the contributions of a run can be checked: can others compute these gradients
// again, and would they find the same numbers?
//
// Thread: the model's. Errors: bad_input, a sentence that names the key of the run file.

#pragma once
#include "dedloc/run/run_file.h"
#include "dedloc/train/model.h"

namespace dedloc::train {

Ok check_recomputable(const run::RunFile& run, Samples& samples, const PeerId& self);

}  // namespace dedloc::train
