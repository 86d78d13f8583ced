#include "experiments/image_training.h"

#include "dedloc/replica/model_state.h"
#include "dedloc/run/vector_codecs.h"

namespace dedloc::lab {

optim::OptimizerConfig adamw_over(double peak, std::uint64_t steps) {
    optim::OptimizerConfig optimizer;
    optimizer.kind = optim::OptimizerKind::adamw;
    optimizer.weight_decay = 0.01;
    optimizer.schedule = {.kind = optim::ScheduleKind::cosine,
                          .peak = peak,
                          .warmup_steps = steps / 16,
                          .total_steps = steps,
                          .final_fraction = 0.02};
    return optimizer;
}

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
                         static_cast<double>(layout.vector_count()) * 2 *
                         static_cast<double>(training.trainers - 1) /
                         static_cast<double>(training.trainers);
    VirtualMachine machine;
    machine.samples_per_s = training.samples_per_s;
    const double rate =
        training.line_bytes_per_s > 0 ? training.line_bytes_per_s : bytes / training.exchange_s;
    machine.line = VirtualLine::both_ways(rate);
    options.machines.assign(training.trainers, machine);
    ImageTrained trained;
    std::vector<std::pair<std::shared_ptr<const state::Snapshot>, double>> states;
    if (training.measure_every > 0)
        options.on_state = [&](const std::shared_ptr<const state::Snapshot>& state, double sent) {
            if (state->step() % training.measure_every == 0) states.emplace_back(state, sent);
        };
    DEDLOC_TRY(trained.result, run_virtually(options));
    for (const auto& [state, sent] : states) {
        learner->load(replica::parameters_of(*state), replica::buffers_of(*state));
        DEDLOC_TRY(const auto evaluation, learner->evaluate());
        trained.measures.push_back({state->step(), sent, evaluation});
    }
    const state::Snapshot& last = *trained.result.state;
    learner->load(replica::parameters_of(last), replica::buffers_of(last));
    DEDLOC_TRY(trained.evaluation, learner->evaluate());
    return trained;
}

}  // namespace dedloc::lab
