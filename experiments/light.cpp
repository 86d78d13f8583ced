#include "experiments/light.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"

#include "experiments/albert_miniature.h"
#include "experiments/image_training.h"
#include "experiments/light_svg.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr double sparse_accuracy_min = 0.868;
constexpr double sparse_bytes_max = 4e6;  // that a peer sends in all
constexpr double sums_bytes_share_max = 0.65;
constexpr std::uint64_t light_fragments = 4;
constexpr double fragment_bytes_max = 1.1;  // a round's, times fragments, of the whole vector's
constexpr double fragments_accuracy_less = 0.01;
constexpr double low_rank_accuracy_min = 0.865;
constexpr std::uint64_t inner_batch = 32;
constexpr double light_samples_per_s = 512;  // of one trainer: a laptop's
constexpr double light_line = 2.5e6;         // bytes a second: 20 Mb/s, as at home
constexpr std::uint64_t measures_count = 20;

constexpr std::string_view light_run = R"(
name = "light"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 128
micro = 32
[averaging]
codec = "fp32"
round_deadline_min = "60s"
round_deadline_max = "300s"
[evaluate]
every = 0
)";

struct Mode {
    std::string name;
    run::RunFile run;
    std::uint64_t steps = 0;
    std::size_t trainers = 4;
    double samples_per_s = light_samples_per_s;
};

Mode sync_mode(const LightCommand& command, const run::RunFile& run) {
    Mode mode{"sync", run, command.rounds * command.inner_steps};
    mode.run.optimizer = adamw_over(command.rate, mode.steps);
    return mode;
}

// Rounds `often` times as often, for as many samples.
Mode local_mode(const LightCommand& command,
                const run::RunFile& run,
                std::size_t trainers,
                std::uint64_t often = 1) {
    Mode mode{"local", run, command.rounds * often, trainers};
    const std::uint64_t steps = std::max<std::uint64_t>(1, command.inner_steps / often);
    mode.run.batch.target = inner_batch * steps * trainers;
    mode.run.local.emplace();
    mode.run.local->batch = inner_batch;
    mode.run.local->optimizer = adamw_over(command.rate, mode.steps);
    mode.run.optimizer = {};
    mode.run.optimizer.nesterov = true;
    mode.run.optimizer.schedule.peak = command.outer_rate;
    return mode;
}

Mode fragments_mode(const LightCommand& command, const run::RunFile& run) {
    Mode mode = local_mode(command, run, 4, light_fragments);
    mode.name = fmt::format("fragments_{}", light_fragments);
    mode.run.local->fragments = light_fragments;
    return mode;
}

optim::OptimizerConfig sparse_outer(double rate, double momentum) {
    optim::OptimizerConfig optimizer;
    optimizer.kind = optim::OptimizerKind::sgd;
    optimizer.momentum = momentum;
    optimizer.nesterov = momentum > 0;
    optimizer.schedule.peak = rate;
    return optimizer;
}

Mode sparse_mode(const LightCommand& command, const run::RunFile& run, std::size_t trainers) {
    Mode mode = local_mode(command, run, trainers, trainers == 4 ? 2 : 1);
    mode.run.local->optimizer.schedule.peak = command.sparse_rate;
    mode.name = trainers == 4 ? "sparse" : fmt::format("sparse_{}", trainers);
    mode.run.averaging.codec = codec::CodecId::sparse;
    mode.run.optimizer = sparse_outer(command.sparse_outer_rate, command.sparse_outer_momentum);
    return mode;
}

Mode overlap_mode(const LightCommand& command, const run::RunFile& run, std::size_t trainers) {
    Mode mode = sparse_mode(command, run, trainers);
    mode.name = trainers == 4 ? "overlap" : fmt::format("overlap_{}", trainers);
    mode.run.averaging.delayed = true;
    mode.run.optimizer.schedule.peak = command.overlap_outer_rate;
    return mode;
}

// Owners add the contributions of so few, which are gathered else.
Mode sums_mode(const LightCommand& command, const run::RunFile& run, std::size_t trainers) {
    Mode mode = sparse_mode(command, run, trainers);
    mode.name = fmt::format("sums_{}", trainers);
    mode.run.averaging.gather_max = trainers / 2;
    return mode;
}

Mode low_rank_mode(const LightCommand& command, const run::RunFile& run) {
    Mode mode = sparse_mode(command, run, 4);
    mode.name = "low_rank";
    mode.run.averaging.codec = codec::CodecId::low_rank;
    mode.run.optimizer.momentum = 0;
    mode.run.optimizer.nesterov = false;
    return mode;
}

std::vector<Mode> image_modes(const LightCommand& command, const run::RunFile& run) {
    std::vector<Mode> modes{
        sync_mode(command, run), local_mode(command, run, 4), fragments_mode(command, run)};
    for (const std::size_t trainers : {4u, 16u}) {
        modes.push_back(sparse_mode(command, run, trainers));
        modes.push_back(overlap_mode(command, run, trainers));
    }
    modes.push_back(sums_mode(command, run, 16));
    if (command.only == "sums_32") modes.push_back(sums_mode(command, run, 32));
    modes.push_back(low_rank_mode(command, run));
    return modes;
}

Result<LightLine> train_mode(const LightCommand& command,
                             const Mode& mode,
                             const tasks::TrainingTask& task) {
    const ImageTraining training{
        .run = mode.run,
        .trainers = mode.trainers,
        .steps = mode.steps,
        .samples_per_s = mode.samples_per_s,
        .line_bytes_per_s = light_line,
        .time_max = 24h,
        .seed = command.seed,
        .measure_every = std::max<std::uint64_t>(1, mode.steps / measures_count)};
    DEDLOC_TRY(const ImageTrained trained, train_images(training, task));
    const VirtualResult& result = trained.result;
    const auto peers = static_cast<double>(mode.trainers);
    LightLine line;
    line.mode = mode.name;
    line.peers = mode.trainers;
    line.rounds = result.steps.size();
    for (const BookedStep& step : result.steps) line.samples += step.samples;
    line.samples_sent = line.samples - result.steps.front().samples;
    line.sent = result.bytes / peers;
    line.round_most = result.round_bytes_most / peers;
    for (const sim::MethodTraffic& one : result.traffic)
        line.by_method.emplace_back(one.method, one.bytes / peers);
    line.compute_share = result.compute_share;
    line.identical = result.identical;
    line.loss = trained.evaluation.loss;
    line.accuracy = trained.evaluation.accuracy;
    for (const ImageMeasure& measure : trained.measures)
        line.accuracies.emplace_back(measure.bytes / peers, measure.evaluation.accuracy);
    fmt::print(stderr,
               "{:<11} {:>2} peers, {:>3} rounds, {:>6.0f} samples, {:>8.3f} MB sent by each, "
               "{:.0f} % computing; loss {:.4f}, accuracy {:.2f} %\n",
               line.mode,
               line.peers,
               line.rounds,
               line.samples,
               line.sent / 1e6,
               100 * line.compute_share,
               line.loss,
               100 * line.accuracy);
    return line;
}

bool light_holds(const LightLine& line) {
    bool held = is_identical("light", line.identical);
    const bool low_rank = line.mode == "low_rank";
    const double accuracy_min = low_rank ? low_rank_accuracy_min : sparse_accuracy_min;
    if (low_rank || line.mode.starts_with("sparse") || line.mode.starts_with("overlap") ||
        line.mode.starts_with("sums"))
        held = all_hold(
                   "light",
                   {at_least(line.mode + ": accuracy", line.accuracy, accuracy_min),
                    at_most(line.mode + ": bytes sent by a peer", line.sent, sparse_bytes_max)}) &&
               held;
    return held;
}

// A fragment's rounds beside those of the whole vector.
bool fragments_hold(const std::vector<LightLine>& lines) {
    const auto find = [&](std::string_view start) {
        return std::ranges::find_if(
            lines, [&](const LightLine& line) { return line.mode.starts_with(start); });
    };
    const auto whole = find("local");
    const auto fragments = find("fragments");
    if (whole == lines.end() || fragments == lines.end()) return true;
    const double share = fragments->round_most / whole->round_most;
    return all_hold("light",
                    {at_most(fragments->mode + ": bytes of a round, of local's",
                             share,
                             fragment_bytes_max / static_cast<double>(light_fragments)),
                     at_least(fragments->mode + ": accuracy",
                              fragments->accuracy,
                              whole->accuracy - fragments_accuracy_less)});
}

// Sums beside what is gathered of as many peers.
bool sums_hold(const std::vector<LightLine>& lines) {
    const auto gathered = std::ranges::find(lines, "sparse_16", &LightLine::mode);
    const auto sums = std::ranges::find(lines, "sums_16", &LightLine::mode);
    if (gathered == lines.end() || sums == lines.end()) return true;
    return all_hold("light",
                    {at_most("sums_16: bytes sent by a peer, of sparse_16's",
                             sums->sent / gathered->sent,
                             sums_bytes_share_max)});
}

nlohmann::ordered_json methods_json(const LightLine& line) {
    nlohmann::ordered_json methods;
    for (const auto& [method, bytes] : line.by_method) methods[method] = std::round(bytes);
    return methods;
}

nlohmann::ordered_json to_json(const LightLine& line) {
    return {{"peers", line.peers},
            {"rounds", line.rounds},
            {"samples", line.samples},
            {"sent", line.sent},
            {"sent_a_sample", line.sent / line.samples_sent},
            {"round_most", line.round_most},
            {"sent_by_method", methods_json(line)},
            {"compute_share", line.compute_share},
            {"loss", line.loss},
            {"accuracy", line.accuracy},
            {"identical", line.identical}};
}

constexpr double albert_fewer_bytes_min = 1000;  // up, for a sample
constexpr double albert_loss_ratio_max = 1.01;
constexpr double albert_samples_ratio_max = 1.01;
constexpr std::size_t albert_trainers = 4;
constexpr double albert_batches_per_s = 64;  // of one trainer

constexpr std::string_view albert_more = R"(
[averaging]
round_deadline_min = "60s"
round_deadline_max = "300s"
)";

// A straight line from the warm-up on.
void fall(optim::Schedule& schedule, std::uint64_t steps, double final_fraction) {
    if (final_fraction == 1) return;
    schedule.kind = optim::ScheduleKind::linear;
    schedule.total_steps = steps;
    schedule.final_fraction = final_fraction;
}

// After as many samples.
Mode albert_sync(const LightCommand& command, const run::RunFile& run, double samples) {
    const auto step = static_cast<double>(command.albert_batch * albert_trainers);
    Mode mode{"albert_sync", run, static_cast<std::uint64_t>(std::ceil(samples / step))};
    mode.trainers = albert_trainers;
    mode.samples_per_s = albert_batches_per_s * static_cast<double>(command.albert_batch);
    mode.run.optimizer.schedule.peak = command.albert_rate;
    mode.run.optimizer.schedule.warmup_steps = mode.steps / 16;
    fall(mode.run.optimizer.schedule, mode.steps, command.albert_final);
    // A step is over here before others' statuses tell how far they are, and each peer would begin
    // further batches: with this target a round has one of each.
    mode.run.batch.micro = command.albert_batch;
    mode.run.batch.target = command.albert_batch * 3 / 2;
    return mode;
}

Mode albert_light(const LightCommand& command, const run::RunFile& run) {
    Mode mode{"albert_light", run, command.albert_rounds};
    mode.trainers = albert_trainers;
    mode.samples_per_s = albert_batches_per_s * static_cast<double>(command.albert_batch);
    mode.run.batch.micro = command.albert_batch;
    mode.run.batch.target = command.albert_batch * albert_trainers * command.albert_steps;
    mode.run.local.emplace();
    mode.run.local->batch = command.albert_batch;
    mode.run.local->optimizer = mode.run.optimizer;
    mode.run.local->optimizer.schedule.peak = command.albert_inner_rate;
    mode.run.local->optimizer.schedule.warmup_steps = 1;
    fall(mode.run.local->optimizer.schedule, mode.steps, command.albert_final);
    mode.run.averaging.codec = codec::CodecId::sparse;
    mode.run.optimizer = sparse_outer(command.albert_outer_rate, command.albert_outer_momentum);
    return mode;
}

// By how much the bytes that a peer sends for a sample are fewer.
double fewer(const LightLine& sync, const LightLine& light) {
    return sync.sent / sync.samples_sent / (light.sent / light.samples_sent);
}

bool albert_holds(const LightLine& sync, const LightLine& light) {
    return all_hold(
               "light",
               {at_least("bytes up a sample, fewer", fewer(sync, light), albert_fewer_bytes_min),
                at_most("samples of albert_light, of albert_sync's",
                        light.samples / sync.samples,
                        albert_samples_ratio_max),
                at_most("loss of albert_light, of albert_sync's",
                        light.loss / sync.loss,
                        albert_loss_ratio_max)}) &&
           is_identical("light", sync.identical && light.identical);
}

run::RunFile run_file_of(const LightCommand& command) {
    const auto run = run::parse_run_file(
        command.albert ? albert_miniature("light-albert", albert_more) : std::string(light_run),
        "light.toml");
    DEDLOC_CHECK(run, "our own run file");
    return *run;
}

struct LightReport {
    nlohmann::ordered_json json{{"ok", false}};
    bool held = true;
};

// Light rounds count some samples more than asked. So they come first.
Result<LightReport> train_albert(const LightCommand& command,
                                 const run::RunFile& run,
                                 const tasks::TrainingTask& task) {
    const Mode light_mode = albert_light(command, run);
    DEDLOC_TRY(const LightLine light, train_mode(command, light_mode, task));
    LightReport report;
    report.json[light.mode] = to_json(light);
    if (command.only == light.mode) return report;
    const Mode sync_mode = albert_sync(command, run, light.samples);
    DEDLOC_TRY(const LightLine sync, train_mode(command, sync_mode, task));
    report.json[sync.mode] = to_json(sync);
    report.json["bytes_fewer"] = fewer(sync, light);
    report.json["loss_ratio"] = light.loss / sync.loss;
    report.held = albert_holds(sync, light);
    return report;
}

Result<LightReport> train_images_lightly(const LightCommand& command,
                                         const run::RunFile& run,
                                         const tasks::TrainingTask& task) {
    LightReport report;
    std::vector<LightLine> lines;
    for (const Mode& mode : image_modes(command, run)) {
        if (!command.only.empty() && mode.name != command.only) continue;
        DEDLOC_TRY(const LightLine line, train_mode(command, mode, task));
        report.held = light_holds(line) && report.held;
        report.json[mode.name] = to_json(line);
        lines.push_back(line);
    }
    report.held = fragments_hold(lines) && report.held;
    report.held = sums_hold(lines) && report.held;
    if (!command.plot.empty()) std::ofstream(command.plot) << light_svg(lines);
    return report;
}

}  // namespace

int run_light(const LightCommand& command) {
    const run::RunFile run = run_file_of(command);
    const auto task = tasks::make_task(
        run.task, {.device = "cpu", .threads_count = 1, .data_directory = command.data_directory});
    if (!task) {
        fmt::print(stderr, "dedloc: {}\n", task.error().message());
        return exit_data_missing;
    }
    auto report = command.albert ? train_albert(command, run, **task)
                                 : train_images_lightly(command, run, **task);
    if (!report) {
        fmt::print(stderr, "dedloc: {}\n", report.error().message());
        return exit_check_failed;
    }
    report->json["ok"] = report->held;
    if (command.json) fmt::print("{}\n", monitor::json_line(report->json));
    return report->held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
