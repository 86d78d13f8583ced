// Computes what another peer handed in again, for the checks of robust runs: with its samples, at
// its state, in micro-batches as it had them, and in a run with local updates by its inner steps.
//
// Thread: the model's. Cost: that of the samples and inner steps. Errors: those of the samples.

#pragma once
#include <cstdint>

#include "dedloc/train/accumulation.h"
#include "dedloc/train/model.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::train {

// Nothing is summed up when it is called; it computes as the validator afterwards; a state is to be
// loaded before it goes on, into `accumulation`, the run's own.
Result<validation::CheckResult> recompute(Model& model,
                                          Samples& computing,
                                          Accumulation& accumulation,
                                          const validation::CheckJob& job,
                                          std::uint64_t micro_batch);

}  // namespace dedloc::train
