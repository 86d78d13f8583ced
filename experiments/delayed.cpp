#include "experiments/delayed.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"

#include "experiments/image_training.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t delayed_trainers = 4;
constexpr double share_wanted = 0.95;
constexpr double delayed_loss_ratio_max = 1.02;
constexpr double delayed_samples_per_s = 8;  // of one trainer
constexpr std::size_t tail_steps = 20;
constexpr Duration step_time_max = 60s;
constexpr std::uint64_t plain_micro = 32;

constexpr std::string_view delayed_run = R"(
name = "delayed"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 64
micro = 2
[optimizer]
kind = "adamw"
weight_decay = 0.01
[schedule]
kind = "cosine"
warmup_steps = 1
total_steps = 2
final_fraction = 0.02
[averaging]
part_elements_max = 8192
round_deadline_min = "60s"
round_deadline_max = "300s"
[evaluate]
every = 0
)";

struct DelayedOutcome {
    VirtualResult result;
    collab::Evaluation evaluation;
    double training_loss = 0;  // mean of the last steps
    double batch_s = 0;        // computing one batch, all together
    double step_s = 0;
    double samples = 0;
};

Result<DelayedOutcome> train(const DelayedCommand& command,
                             const run::RunFile& run,
                             const tasks::TrainingTask& task,
                             bool delayed) {
    const double batch_s =
        static_cast<double>(run.batch.target) / (delayed_samples_per_s * delayed_trainers);
    ImageTraining training{.run = run,
                           .steps = command.steps,
                           .samples_per_s = delayed_samples_per_s,
                           .exchange_s = batch_s * command.exchange_over_batch,
                           .time_max = step_time_max * static_cast<int>(command.steps),
                           .seed = command.seed};
    training.run.averaging.delayed = delayed;
    DelayedOutcome outcome;
    DEDLOC_TRY(ImageTrained trained, train_images(training, task));
    outcome.result = std::move(trained.result);
    outcome.evaluation = trained.evaluation;
    const std::vector<BookedStep>& steps = outcome.result.steps;
    const std::size_t tail = std::min(steps.size(), tail_steps);
    for (std::size_t i = steps.size() - tail; i < steps.size(); ++i)
        outcome.training_loss += steps[i].loss / static_cast<double>(tail);
    for (const BookedStep& step : steps) outcome.samples += step.samples;
    outcome.batch_s = batch_s;
    outcome.step_s =
        (steps.back().at_s - steps.front().at_s) / static_cast<double>(steps.size() - 1);
    fmt::print(stderr,
               "{}: {} steps of {:.2f} s, {:.1f} % of it computing; loss {:.4f} ({:.4f} in "
               "training), accuracy {:.2f} %\n",
               delayed ? "delayed" : "waiting",
               steps.size(),
               outcome.step_s,
               100 * outcome.result.compute_share,
               outcome.evaluation.loss,
               outcome.training_loss,
               100 * outcome.evaluation.accuracy);
    return outcome;
}

// The same training without any collaboration: one process, one batch a step; `delayed`: each
// step takes the gradient that was computed at the parameters before the last ones. What a gradient
// of that age costs by itself. Returns the held-out loss.
Result<double> plain_loop(const run::RunFile& run, const tasks::TrainingTask& task, bool delayed) {
    DEDLOC_TRY(const auto learner, task.learner(PeerId()));
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner->store(parameters, buffers);
    std::vector<std::vector<float>> moments(optim::moments_count(run.optimizer),
                                            std::vector<float>(layout.parameters_count));
    const std::vector<std::span<float>> moment_spans(moments.begin(), moments.end());
    collab::CounterRange samples;
    const auto gradient = [&]() -> Result<std::vector<float>> {
        learner->load(parameters, buffers);
        for (std::uint64_t done = 0; done < run.batch.target; done += plain_micro) {
            samples = {samples.end, samples.end + plain_micro};
            DEDLOC_TRY_VOID(learner->accumulate(samples));
        }
        std::vector<float> sum(parameters.size());
        std::vector<float> change(buffers.size());
        learner->take(sum, change, 1);
        for (std::size_t i = 0; i < change.size(); ++i) buffers[i] += change[i];
        for (float& value : sum) value /= static_cast<float>(run.batch.target);
        return sum;
    };
    std::vector<float> waiting;
    if (delayed) {
        DEDLOC_TRY(waiting, gradient());
    }
    for (std::uint64_t step = 0; step < run.optimizer.schedule.total_steps; ++step) {
        DEDLOC_TRY(std::vector<float> computed, gradient());
        if (delayed) std::swap(computed, waiting);
        (void)optim::step(
            run.optimizer, layout.parameters, step, parameters, computed, moment_spans);
    }
    learner->load(parameters, buffers);
    DEDLOC_TRY(const collab::Evaluation evaluation, learner->evaluate());
    return evaluation.loss;
}

}  // namespace

int run_delayed(const DelayedCommand& command) {
    auto run = run::parse_run_file(delayed_run, "delayed.toml");
    DEDLOC_CHECK(run, "our own run file");
    run->optimizer.schedule.total_steps = command.steps;
    run->optimizer.schedule.warmup_steps = command.steps / 8;
    run->optimizer.schedule.peak = command.rate;
    auto task = tasks::make_task(
        run->task, {.device = "cpu", .threads_count = 1, .data_directory = command.data_directory});
    if (!task) {
        fmt::print(stderr, "dedloc: {}\n", task.error().message());
        return exit_data_missing;
    }
    const auto waiting = train(command, *run, **task, false);
    const auto delayed = waiting ? train(command, *run, **task, true) : waiting;
    if (!delayed) {
        fmt::print(stderr, "dedloc: {}\n", delayed.error().message());
        return exit_check_failed;
    }
    double plain = 0;
    double plain_old = 0;
    if (command.plain) {
        const auto loss = plain_loop(*run, **task, false);
        const auto loss_old = loss ? plain_loop(*run, **task, true) : loss;
        if (!loss_old) {
            fmt::print(stderr, "dedloc: {}\n", loss_old.error().message());
            return exit_check_failed;
        }
        plain = *loss;
        plain_old = *loss_old;
        fmt::print(stderr,
                   "plain loop: loss {:.4f}; with gradients that are one step old {:.4f}\n",
                   plain,
                   plain_old);
    }
    const double loss_ratio = delayed->evaluation.loss / waiting->evaluation.loss;
    const double round_over_batch = (waiting->step_s - waiting->batch_s) / waiting->batch_s;
    const bool identical = waiting->result.identical && delayed->result.identical;
    const bool bounds_hold =
        all_hold("delayed",
                 {at_least("compute_share", delayed->result.compute_share, share_wanted),
                  at_most("loss_ratio", loss_ratio, delayed_loss_ratio_max)});
    const bool held = is_identical("delayed", identical) && bounds_hold;
    if (command.json) {
        nlohmann::ordered_json json{{"ok", held},
                                    {"compute_share", delayed->result.compute_share},
                                    {"sync_compute_share", waiting->result.compute_share},
                                    {"round_over_batch", round_over_batch},
                                    {"loss", delayed->evaluation.loss},
                                    {"sync_loss", waiting->evaluation.loss},
                                    {"loss_ratio", loss_ratio},
                                    {"training_loss", delayed->training_loss},
                                    {"sync_training_loss", waiting->training_loss},
                                    {"accuracy", delayed->evaluation.accuracy},
                                    {"sync_accuracy", waiting->evaluation.accuracy},
                                    {"step_seconds", delayed->step_s},
                                    {"sync_step_seconds", waiting->step_s},
                                    {"samples", delayed->samples},
                                    {"sync_samples", waiting->samples},
                                    {"identical", identical}};
        if (command.plain) {
            json["plain_loss"] = plain;
            json["plain_loss_one_step_old"] = plain_old;
        }
        fmt::print("{}\n", monitor::json_line(json));
    }
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
