// Whether a task can be computed on this machine at all, before anything is computed: a model that
// is too large would end in the kernel's out-of-memory killer, without a word.
//
// Thread: any. Errors: cannot_compute, with what is needed and what is there.

#pragma once
#include <cstdint>

#include "dedloc/tasks/training_task.h"

namespace dedloc::peer {

enum class MemoryUse {
    training,    // gradients, one sample at a time, and what a collaboration keeps
    evaluation,  // the model, and the state that it is loaded from
};

// The least that this use takes. What averages are kept for others is not in it: fewer are kept
// where there is less memory. 0: not known.
std::uint64_t memory_needed(const tasks::MemoryEstimate& of_one_sample, MemoryUse use);

// `available`: bytes; 0: not known, and anything goes.
Ok check_fits(const tasks::TrainingTask& task, MemoryUse use, std::uint64_t available);

}  // namespace dedloc::peer
