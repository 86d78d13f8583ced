#include "experiments/fleet.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/base/file.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"

#include "experiments/fleet_data.h"
#include "experiments/fleet_svg.h"
#include "experiments/image_training.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr double cost_ratio_max = 0.4;   // spot over on-demand machines
constexpr double loss_ratio_max = 1.05;  // likewise: so much counts as equal
constexpr std::size_t fleet_text_bytes_max = 1u << 20;
constexpr std::size_t fleet_machines = 16;
constexpr double fleet_samples_per_s = 0.8;  // of a T4: 16 of a step's 256 samples in 20 s
constexpr double albert_over_cnn = 17'847'474.0 / 105'866;
constexpr double megabit = 1e6 / 8;
constexpr double fleet_boot_s = 180;         // of a successor, which is paid and trains nothing
constexpr Duration leave_before_end = 100s;  // of the two minutes' notice
constexpr std::uint64_t light_inner_batch = 16;
constexpr std::uint64_t light_inner_steps = 8;

constexpr std::string_view fleet_run = R"(
name = "fleet"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 256
micro = 4
[averaging]
codec = "fp16"
round_deadline_min = "10s"
round_deadline_max = "120s"
quorum_timeout = "30s"
[evaluate]
every = 0
)";

struct FleetMode {
    std::string name;
    std::string machines;
    run::RunFile run;
    std::uint64_t rounds = 0;
    bool is_large = false;
    bool is_spot = false;
};

std::vector<FleetMode> fleet_modes(const FleetCommand& command, const FleetPrices& prices) {
    const auto run = run::parse_run_file(fleet_run, "fleet.toml");
    DEDLOC_CHECK(run, "our own run file");
    FleetMode plain{
        .name = "on_demand",
        .machines = fmt::format("{} × {}, on demand", fleet_machines, prices.fleet.what),
        .run = *run,
        .rounds = command.steps};
    plain.run.optimizer = adamw_over(command.rate, command.steps);
    FleetMode large = plain;
    large.name = "large";
    large.machines = "one machine, " + prices.large.what;
    large.is_large = true;
    FleetMode spot = plain;
    spot.name = "spot";
    spot.machines = fmt::format("{} × {}, spot", fleet_machines, prices.fleet.what);
    spot.is_spot = true;
    FleetMode light = spot;
    light.name = "spot_light";
    light.machines += ", few bytes";
    const std::uint64_t round_samples = light_inner_batch * light_inner_steps * fleet_machines;
    light.rounds =
        std::max<std::uint64_t>(1, command.steps * plain.run.batch.target / round_samples);
    light.run.batch.target = round_samples;
    light.run.local.emplace();
    light.run.local->batch = light_inner_batch;
    light.run.local->optimizer = adamw_over(command.light_rate, light.rounds);
    light.run.averaging.codec = codec::CodecId::sparse;
    light.run.optimizer = {};
    light.run.optimizer.kind = optim::OptimizerKind::sgd;
    light.run.optimizer.momentum = 0.3;
    light.run.optimizer.nesterov = true;
    light.run.optimizer.schedule.peak = 1;
    return {large, plain, spot, light};
}

std::vector<VirtualMachine> machines_for(const FleetMode& mode,
                                         const FleetTrace& trace,
                                         const FleetPrices& prices) {
    VirtualMachine machine;
    machine.samples_per_s = fleet_samples_per_s * (mode.is_large ? prices.large.speed : 1);
    machine.line = VirtualLine::both_ways(100 * megabit / albert_over_cnn);
    if (mode.is_large) return {machine};
    std::vector<VirtualMachine> machines(fleet_machines, machine);
    for (std::size_t i = 0; i < machines.size(); ++i) {
        const double mbit = i % 4 == 0 ? 200 : i % 4 == 3 ? 50 : 100;
        machines[i].line = VirtualLine::both_ways(mbit * megabit / albert_over_cnn);
        if (mode.is_spot && i < trace.size()) machines[i].absences = trace[i];
    }
    return machines;
}

void count_preemptions(FleetLine& line, const std::vector<VirtualMachine>& machines) {
    for (const VirtualMachine& machine : machines)
        for (const VirtualAbsence& absence : machine.absences) {
            if (to_seconds(absence.from) > line.hours * 3600) continue;
            ++line.preemptions;
            if (absence.notice == Duration(0)) ++line.silent;
        }
}

// The host is never preempted, and is paid as an on-demand machine.
void count_costs(FleetLine& line,
                 const FleetMode& mode,
                 const std::vector<VirtualMachine>& machines,
                 const FleetPrices& prices) {
    for (std::size_t i = 0; i < machines.size(); ++i) {
        const double hours = paid_hours(machines[i].absences, line.hours * 3600, fleet_boot_s);
        const double price = mode.is_large           ? prices.large.on_demand
                             : mode.is_spot && i > 0 ? prices.fleet.spot
                                                     : prices.fleet.on_demand;
        line.machine_hours += hours;
        line.usd += hours * price;
    }
}

Result<FleetLine> train_fleet(const FleetCommand& command,
                              const FleetMode& mode,
                              const FleetTrace& trace,
                              const FleetPrices& prices,
                              const tasks::TrainingTask& task) {
    VirtualRunOptions options;
    options.run = mode.run;
    options.make_learner = [&task](const PeerId& peer) { return task.learner(peer); };
    options.machines = machines_for(mode, trace, prices);
    options.steps = mode.rounds;
    options.leave_grace_period = leave_before_end;
    options.shrunk = albert_over_cnn;
    options.time_max = 24h;
    options.seed = command.seed;
    DEDLOC_TRY(const VirtualResult result, run_virtually(options));
    DEDLOC_TRY(const auto learner, task.learner(PeerId()));
    learner->load(replica::parameters_of(*result.state), replica::buffers_of(*result.state));
    DEDLOC_TRY(const auto evaluation, learner->evaluate());
    FleetLine line{.mode = mode.name, .machines = mode.machines, .rounds = result.steps.size()};
    const double steps = static_cast<double>(result.steps.size());
    // The result does not say when the first step began: it counts as the mean of the others.
    line.hours = (result.steps.back().at_s - result.steps.front().at_s) * steps /
                 std::max(1.0, steps - 1) / 3600;
    line.steps_a_day = steps / line.hours * 24;
    for (const BookedStep& step : result.steps) line.samples += step.samples;
    line.samples_outside =
        std::max(0.0, static_cast<double>(result.samples_computed) - line.samples);
    line.loss = evaluation.loss;
    line.accuracy = evaluation.accuracy;
    line.identical = result.identical;
    count_preemptions(line, options.machines);
    count_costs(line, mode, options.machines, prices);
    fmt::print(stderr,
               "{:<11} {:>4} rounds in {:.2f} h ({:.0f} a day), {:.0f} samples, {:.0f} not in the "
               "model; {} preemptions, {} without notice; {:.1f} machine hours, ${:.2f}; loss "
               "{:.4f}, accuracy {:.2f} %\n",
               line.mode,
               line.rounds,
               line.hours,
               line.steps_a_day,
               line.samples,
               line.samples_outside,
               line.preemptions,
               line.silent,
               line.machine_hours,
               line.usd,
               line.loss,
               100 * line.accuracy);
    return line;
}

nlohmann::ordered_json to_json(const FleetLine& line) {
    return {{"rounds", line.rounds},
            {"hours", line.hours},
            {"steps_a_day", line.steps_a_day},
            {"samples", line.samples},
            {"samples_outside", line.samples_outside},
            {"preemptions", line.preemptions},
            {"without_notice", line.silent},
            {"machine_hours", line.machine_hours},
            {"usd", line.usd},
            {"loss", line.loss},
            {"accuracy", line.accuracy},
            {"identical", line.identical}};
}

const FleetLine* line_of(const std::vector<FleetLine>& lines, std::string_view mode) {
    const auto line = std::ranges::find(lines, mode, &FleetLine::mode);
    return line == lines.end() ? nullptr : &*line;
}

// Compares the spot fleet with the same one on demand, where both were trained.
bool fleet_holds(const std::vector<FleetLine>& lines, nlohmann::ordered_json& json) {
    const bool identical = std::ranges::all_of(lines, &FleetLine::identical);
    const FleetLine* spot = line_of(lines, "spot");
    const FleetLine* on_demand = line_of(lines, "on_demand");
    const bool held = is_identical("fleet", identical);
    if (!spot || !on_demand) return held;
    json["cost"] = spot->usd / on_demand->usd;
    json["loss_ratio"] = spot->loss / on_demand->loss;
    json["hours_ratio"] = spot->hours / on_demand->hours;
    return all_hold("fleet",
                    {at_most("cost, of on-demand machines", json["cost"], cost_ratio_max),
                     at_most("loss, of theirs", json["loss_ratio"], loss_ratio_max),
                     at_least("preemptions", spot->preemptions, 1)}) &&
           held;
}

int exit_for_file(const Error& error) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    return exit_bad_input;
}

}  // namespace

int run_fleet(const FleetCommand& command) {
    const auto trace_text = base::read_file(command.trace, fleet_text_bytes_max);
    if (!trace_text) return exit_after(trace_text.error());
    const auto prices_text = base::read_file(command.prices, fleet_text_bytes_max);
    if (!prices_text) return exit_after(prices_text.error());
    const auto trace = parse_fleet_trace(*trace_text, command.trace);
    if (!trace) return exit_for_file(trace.error());
    const auto prices = parse_fleet_prices(*prices_text, command.prices);
    if (!prices) return exit_for_file(prices.error());
    std::vector<FleetMode> modes = fleet_modes(command, *prices);
    const auto task = tasks::make_task(
        modes.front().run.task,
        {.device = "cpu", .threads_count = 1, .data_directory = command.data_directory});
    if (!task) return exit_after(task.error());
    if (!command.only.empty())
        std::erase_if(modes, [&](const FleetMode& mode) { return mode.name != command.only; });
    nlohmann::ordered_json json{{"ok", false}};
    std::vector<FleetLine> lines;
    for (const FleetMode& mode : modes) {
        const auto line = train_fleet(command, mode, *trace, *prices, **task);
        if (!line) return exit_after(line.error());
        json[mode.name] = to_json(*line);
        lines.push_back(*line);
    }
    const bool held = fleet_holds(lines, json);
    if (!command.plot.empty()) std::ofstream(command.plot) << fleet_svg(lines, prices->dated);
    json["ok"] = held;
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
