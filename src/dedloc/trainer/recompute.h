// Computes another peer's gradients again, for the checks of robust runs: with its samples, at its
// state, in micro-batches as it had them.
//
// Thread: the learner's. Cost: that of the samples. Errors: those of the learner.

#pragma once
#include <cstdint>

#include "dedloc/collab/learner.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::trainer {

// The learner has nothing accumulated, and computes as the validator afterwards; a state is to be
// loaded before it goes on.
Result<validation::CheckResult> recompute(collab::Learner& learner,
                                          const validation::CheckJob& job,
                                          std::uint64_t micro_batch);

}  // namespace dedloc::trainer
