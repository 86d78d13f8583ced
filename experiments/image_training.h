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

// AdamW whose rate rises over a sixteenth of the steps and falls as a cosine.
optim::OptimizerConfig adamw_over(double peak, std::uint64_t steps);

struct ImageTraining {
    run::RunFile run = image_run();
    std::size_t trainers = 4;
    std::uint64_t steps = 1;
    double samples_per_s = 64;    // of one trainer
    double exchange_s = 1;        // that a round's bytes alone take on everybody's line …
    double line_bytes_per_s = 0;  // … unless this says what the lines are
    Duration time_max{0};
    std::uint64_t seed = 1;
    std::uint64_t measure_every = 0;  // steps; 0: at the end only
};

// How good the model was when so much had been delivered to all.
struct ImageMeasure {
    std::uint64_t step = 0;
    double bytes = 0;
    collab::Evaluation evaluation;
};

struct ImageTrained {
    VirtualResult result;
    collab::Evaluation evaluation;  // of the last state, on held-out data
    std::vector<ImageMeasure> measures;
};

Result<ImageTrained> train_images(const ImageTraining& training, const tasks::TrainingTask& task);

}  // namespace dedloc::lab
