// The steps of a recorded collaboration again, as a plain loop of libtorch: its autograd and its
// optimizers, one machine, no dedloc.

#pragma once
#include <vector>

#include "dedloc/tasks/fashion_mnist.h"

#include "experiments/equivalence_recording.h"

namespace dedloc::lab::equivalence {

// The parameters after each step. `pieces`: of each peer's samples of a step; 0: one large batch of
// all. The two differ in nothing but libtorch's own order of sums.
Result<std::vector<std::vector<float>>> train_plainly(const run::RunFile& run,
                                                      const Recording& recording,
                                                      const tasks::FashionMnist& data,
                                                      std::uint64_t pieces);

}  // namespace dedloc::lab::equivalence
