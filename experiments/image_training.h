// A run in virtual time (virtual_run.h) of four equal trainers that learn to tell pictures apart,
// and how good the model is then: what `lab delayed` and `lab local` compare.
//
// Thread: one. Cost: the gradients of all samples, and a pass over the held-out data. Errors: the
// task's, and those of the run.

#pragma once
#include "dedloc/tasks/training_task.h"

#include "tests/sim/image_task.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

inline constexpr std::size_t image_trainers = 4;

struct ImageTraining {
    run::RunFile run = image_run();
    std::uint64_t steps = 1;
    double samples_per_s = 64;  // of one trainer
    double exchange_s = 1;      // that a round's bytes alone take on everybody's line
    Duration time_max{0};
    std::uint64_t seed = 1;
};

struct ImageTrained {
    VirtualResult result;
    collab::Evaluation evaluation;  // of the last state, on held-out data
};

Result<ImageTrained> train_images(const ImageTraining& training, const tasks::TrainingTask& task);

}  // namespace dedloc::lab
