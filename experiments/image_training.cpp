#include "experiments/image_training.h"

#include "dedloc/replica/model_state.h"
#include "dedloc/run/vector_codecs.h"

namespace dedloc::lab {

Result<ImageTrained> train_images(const ImageTraining& training, const tasks::TrainingTask& task) {
    VirtualRunOptions options;
    options.run = training.run;
    options.make_learner = [&task](const PeerId& peer) { return task.learner(peer); };
    options.steps = training.steps;
    options.time_max = training.time_max;
    options.seed = training.seed;
    DEDLOC_TRY(const auto learner, task.learner(PeerId()));
    // Each member sends and receives 2 (n-1)/n of the vector.
    const run::Layout layout = learner->layout();
    const double bytes = codec::element_bytes(run::vector_codecs(training.run.averaging, layout)) *
                         static_cast<double>(layout.vector_count()) * 2 * (image_trainers - 1) /
                         image_trainers;
    VirtualMachine machine;
    machine.samples_per_s = training.samples_per_s;
    machine.line = VirtualLine::both_ways(bytes / training.exchange_s);
    options.machines.assign(image_trainers, machine);
    ImageTrained trained;
    DEDLOC_TRY(trained.result, run_virtually(options));
    const state::Snapshot& last = *trained.result.state;
    learner->load(replica::parameters_of(last), replica::buffers_of(last));
    DEDLOC_TRY(trained.evaluation, learner->evaluate());
    return trained;
}

}  // namespace dedloc::lab
