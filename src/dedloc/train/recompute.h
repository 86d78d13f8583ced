// Computes another peer's gradients again, for the checks of robust runs: with its samples, at its
// state, in micro-batches as it had them.
//
// Thread: the model's. Cost: that of the samples. Errors: those of the samples.

#pragma once
#include <cstdint>

#include "dedloc/train/model.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::train {

// Nothing is summed up when it is called; it computes as the validator afterwards; a state is to be
// loaded before it goes on.
Result<validation::CheckResult> recompute(Model& model,
                                          Samples& computing,
                                          const validation::CheckJob& job,
                                          std::uint64_t micro_batch);

}  // namespace dedloc::train
