#include "experiments/local.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"

#include "experiments/image_training.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr double local_loss_ratio_max = 1.15;  // of sync's
constexpr double bytes_ratio_max = 1.5;        // of sync's over the rounds saved
constexpr std::uint64_t local_inner_batch = 32;
constexpr double local_samples_per_s = 64;  // of one trainer

constexpr std::string_view local_run = R"(
name = "local"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 128
micro = 32
[averaging]
part_elements_max = 8192
round_deadline_min = "60s"
round_deadline_max = "300s"
[evaluate]
every = 0
)";

struct Variant {
    const char* name;
    run::RunFile run;
    std::uint64_t steps;
};

std::vector<Variant> variants(const LocalCommand& command, const run::RunFile& run) {
    const std::uint64_t every = command.inner_steps;
    Variant sync{"sync", run, command.rounds * every};
    sync.run.optimizer = adamw_over(command.rate, sync.steps);
    Variant rare{"rare", run, command.rounds};
    rare.run.batch.target *= every;
    rare.run.optimizer = adamw_over(command.rate, rare.steps);
    Variant local{"local", rare.run, command.rounds};
    local.run.local.emplace();
    local.run.local->batch = local_inner_batch;
    local.run.local->optimizer = adamw_over(command.rate, local.steps);
    local.run.optimizer = {};
    local.run.optimizer.nesterov = true;
    local.run.optimizer.schedule.peak = command.outer_rate;
    return {sync, local, rare};
}

struct LocalOutcome {
    std::size_t rounds = 0;
    double samples = 0;
    double bytes = 0;
    double seconds = 0;
    double compute_share = 0;
    bool identical = true;
    collab::Evaluation evaluation;
};

Result<LocalOutcome> train_locally(const LocalCommand& command,
                                   const Variant& variant,
                                   const tasks::TrainingTask& task) {
    const ImageTraining training{.run = variant.run,
                                 .steps = variant.steps,
                                 .samples_per_s = local_samples_per_s,
                                 .exchange_s = static_cast<double>(local_inner_batch) /
                                               local_samples_per_s * command.exchange_over_batch,
                                 .time_max = 24h,
                                 .seed = command.seed};
    DEDLOC_TRY(const ImageTrained trained, train_images(training, task));
    const VirtualResult& result = trained.result;
    LocalOutcome outcome;
    outcome.rounds = result.steps.size();
    for (const BookedStep& step : result.steps) outcome.samples += step.samples;
    outcome.bytes = result.bytes;
    outcome.seconds = result.steps.back().at_s - result.steps.front().at_s;
    outcome.compute_share = result.compute_share;
    outcome.identical = result.identical;
    outcome.evaluation = trained.evaluation;
    fmt::print(stderr,
               "{}: {} rounds, {:.0f} samples, {:.1f} MB, {:.0f} s, {:.0f} % of it computing; "
               "loss {:.4f}, accuracy {:.2f} %\n",
               variant.name,
               outcome.rounds,
               outcome.samples,
               outcome.bytes / 1e6,
               outcome.seconds,
               100 * outcome.compute_share,
               outcome.evaluation.loss,
               100 * outcome.evaluation.accuracy);
    return outcome;
}

bool holds(const LocalOutcome& sync, const LocalOutcome& local, const LocalOutcome& rare) {
    const double rounds = static_cast<double>(local.rounds) / static_cast<double>(sync.rounds);
    const bool bounds_hold = all_hold(
        "local",
        {at_most("bytes_ratio", local.bytes / sync.bytes, rounds * bytes_ratio_max),
         at_most("loss_ratio", local.evaluation.loss / sync.evaluation.loss, local_loss_ratio_max),
         at_most("the loss over that of rare, large batches",
                 local.evaluation.loss / rare.evaluation.loss,
                 1)});
    return is_identical("local", sync.identical && local.identical && rare.identical) &&
           bounds_hold;
}

nlohmann::ordered_json to_json(const LocalOutcome& outcome) {
    return {{"rounds", outcome.rounds},
            {"samples", outcome.samples},
            {"bytes", outcome.bytes},
            {"seconds", outcome.seconds},
            {"compute_share", outcome.compute_share},
            {"loss", outcome.evaluation.loss},
            {"accuracy", outcome.evaluation.accuracy},
            {"identical", outcome.identical}};
}

}  // namespace

int run_local(const LocalCommand& command) {
    const auto run = run::parse_run_file(local_run, "local.toml");
    DEDLOC_CHECK(run, "our own run file");
    const auto task = tasks::make_task(
        run->task, {.device = "cpu", .threads_count = 1, .data_directory = command.data_directory});
    if (!task) {
        fmt::print(stderr, "dedloc: {}\n", task.error().message());
        return exit_data_missing;
    }
    nlohmann::ordered_json json{{"ok", false}};
    std::vector<LocalOutcome> outcomes;
    for (const Variant& variant : variants(command, *run)) {
        const auto outcome = train_locally(command, variant, **task);
        if (!outcome) {
            fmt::print(stderr, "dedloc: {}\n", outcome.error().message());
            return exit_check_failed;
        }
        outcomes.push_back(*outcome);
        json[variant.name] = to_json(*outcome);
    }
    const bool held = holds(outcomes[0], outcomes[1], outcomes[2]);
    json["ok"] = held;
    json["loss_ratio"] = outcomes[1].evaluation.loss / outcomes[0].evaluation.loss;
    json["bytes_ratio"] = outcomes[1].bytes / outcomes[0].bytes;
    json["seconds_ratio"] = outcomes[1].seconds / outcomes[0].seconds;
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
