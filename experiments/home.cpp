#include "experiments/home.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "dedloc/codec/codec.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/planning/light_advice.h"

#include "tests/common/exit_codes.h"
#include "tests/sim/bowl.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr double home_share_min = 0.95;
constexpr Duration home_cycle = 30min;
constexpr double home_megabits = 1e6 / 8;  // bytes

constexpr std::string_view home_run = R"(
name = "home"
[averaging]
round_deadline_min = "5s"
round_deadline_max = "900s"
# Longer than a machine sleeps: else it begins a branch of its own when it wakes.
quorum_timeout = "600s"
[checkpoint]
every = 0
[evaluate]
every = 0
)";

struct HomeMode {
    std::string name;
    run::RunFile run;
    double step_s = 0;  // predicted
};

std::optional<planning::LightAdvice> home_advice(const HomeCommand& command) {
    const auto file = planning::parse_plan_file(
        fmt::format("[vector]\nelements = {}\ncodec = \"fp16\"\n[training]\nbatch = {}\n"
                    "[peers.home]\ncount = {}\nup = \"{} Mb/s\"\ndown = \"{} Mb/s\"\n"
                    "samples_per_s = {}\n",
                    command.elements,
                    command.batch,
                    command.homes,
                    command.up_mbit,
                    command.down_mbit,
                    command.samples_per_s),
        "homes");
    return file ? planning::advise_light(*file) : std::nullopt;
}

HomeMode home_sync_mode(const HomeCommand& command, const planning::LightAdvice& advice) {
    HomeMode mode{"sync", *run::parse_run_file(home_run, "home.toml")};
    mode.run.batch.target = command.batch;
    mode.run.batch.micro = command.batch / command.homes;
    // Parts, and shares that are worth their messages, as much smaller as the vector.
    mode.run.averaging.part_elements_max =
        std::max<std::uint64_t>(4096, (std::uint64_t{4} << 20) / command.shrunk);
    const double computing_s =
        advice.batch / (command.samples_per_s * static_cast<double>(command.homes));
    mode.step_s = computing_s / advice.synchronous_share;
    return mode;
}

HomeMode home_light_mode(const HomeCommand& command, const planning::LightAdvice& advice) {
    HomeMode mode = home_sync_mode(command, advice);
    mode.name = "light";
    mode.run.local.emplace();
    mode.run.local->batch = mode.run.batch.micro;
    mode.run.local->optimizer.kind = optim::OptimizerKind::adamw;
    mode.run.local->optimizer.schedule.peak = 0.01;
    mode.run.batch.target = static_cast<std::uint64_t>(advice.batch_target());
    mode.run.averaging.codec = codec::CodecId::sparse;
    mode.run.averaging.delayed = advice.delayed;
    mode.run.optimizer = {};
    mode.run.optimizer.kind = optim::OptimizerKind::sgd;
    mode.run.optimizer.momentum = 0.3;
    mode.run.optimizer.nesterov = true;
    mode.run.optimizer.schedule.peak = 1;
    mode.step_s =
        advice.batch_target() / (command.samples_per_s * static_cast<double>(command.homes));
    return mode;
}

// Machine 0 leaves first, and each next one an equal share of home_cycle after it.
VirtualMachine home_machine(const HomeCommand& command, std::size_t place) {
    VirtualMachine machine;
    const double shrunk = home_megabits / static_cast<double>(command.shrunk);
    machine.line = {command.up_mbit * shrunk, command.down_mbit * shrunk};
    machine.samples_per_s = command.samples_per_s;
    if (command.away_minutes <= 0) return machine;
    machine.away = from_seconds(command.away_minutes * 60);
    machine.stays = home_cycle - machine.away;
    machine.sleeps = !command.leave;
    machine.first_stay = home_cycle * static_cast<int>(place + 1) / static_cast<int>(command.homes);
    return machine;
}

VirtualMachine home_aggregator(const HomeCommand& command) {
    VirtualMachine machine;
    machine.line =
        VirtualLine::both_ways(1000 * home_megabits / static_cast<double>(command.shrunk));
    machine.aggregates = true;
    return machine;
}

struct HomeLine {
    std::string mode;
    VirtualResult result;
    double share = 0;
    double seconds = 0;
    std::uint64_t branches = 0;
    std::uint64_t resyncs = 0;
    double sent_a_step = 0;  // bytes of one peer, as of the whole vector
};

Result<HomeLine> run_home_mode(const HomeCommand& command, const HomeMode& mode) {
    VirtualRunOptions options;
    options.run = mode.run;
    const auto elements = static_cast<std::size_t>(command.elements / command.shrunk);
    options.make_learner = [elements](const PeerId& self) { return make_bowl(elements, self); };
    for (std::size_t i = 0; i < command.homes; ++i)
        options.machines.push_back(home_machine(command, i));
    for (std::size_t i = 0; i < command.aggregators; ++i)
        options.machines.push_back(home_aggregator(command));
    options.latency = 40ms;
    options.leave_grace_period = 5s;  // as after a Ctrl-C
    options.shrunk = static_cast<double>(command.shrunk);
    options.stream_window_bytes =
        std::max<std::size_t>(64u << 10, options.stream_window_bytes / command.shrunk);
    options.steps = static_cast<std::uint64_t>(command.minutes * 60 / mode.step_s);
    options.time_max = from_seconds(command.minutes * 60 * 4);
    options.seed = command.seed;
    HomeLine line;
    line.mode = mode.name;
    options.on_event = [&line](const events::Event& event) {
        if (event.is<events::NewBranch>()) ++line.branches;
        if (event.is<events::Resynced>()) ++line.resyncs;
    };
    DEDLOC_TRY(line.result, run_virtually(options));
    const VirtualResult& result = line.result;
    double samples = 0;  // of the steps after the first, whose end begins the time that counts
    for (const BookedStep& step : result.steps)
        if (step.step > result.steps.front().step) samples += step.samples;
    line.seconds = result.steps.back().at_s - result.steps.front().at_s;
    line.share = samples / command.samples_per_s / result.present_s;
    const double sent = std::accumulate(
        result.sent.begin(), result.sent.begin() + static_cast<std::ptrdiff_t>(command.homes), 0.0);
    line.sent_a_step = sent * static_cast<double>(command.shrunk) /
                       static_cast<double>(command.homes) /
                       static_cast<double>(result.steps.size() - 1);
    fmt::print(stderr,
               "{:<6} {:>3} steps in {:>5.0f} s, {:.1f} MB a step sent by each, {:.1f} % of the "
               "present machines' time in the model\n",
               line.mode,
               result.steps.size(),
               line.seconds,
               line.sent_a_step / 1e6,
               100 * line.share);
    return line;
}

nlohmann::ordered_json to_json(const HomeLine& line) {
    return {{"share", line.share},
            {"steps", line.result.steps.size()},
            {"seconds", line.seconds},
            {"present_seconds", line.result.present_s},
            {"sent_a_step", line.sent_a_step},
            {"samples_expired", line.result.samples_expired},
            {"samples_dropped", line.result.samples_dropped},
            {"branches", line.branches},
            {"resyncs", line.resyncs},
            {"identical", line.result.identical}};
}

}  // namespace

int run_home(const HomeCommand& command) {
    const auto advice = home_advice(command);
    if (!advice || advice->local_steps == 0) {
        fmt::print(stderr, "dedloc: these lines are too fast for local updates\n");
        return exit_check_failed;
    }
    fmt::print(stderr, "{}\n", planning::light_sentence(*advice));
    nlohmann::ordered_json json{{"ok", false},
                                {"advice", planning::light_sentence(*advice)},
                                {"local_steps", advice->local_steps}};
    bool held = true;
    const HomeMode modes[] = {home_light_mode(command, *advice), home_sync_mode(command, *advice)};
    for (const HomeMode& mode : modes) {
        if (!command.only.empty() && command.only != mode.name) continue;
        const auto line = run_home_mode(command, mode);
        if (!line) {
            fmt::print(stderr, "dedloc: {}: {}\n", mode.name, line.error().message());
            return exit_check_failed;
        }
        held = is_identical("home", line->result.identical) && held;
        if (mode.name == "light")
            held = all_hold("home", {at_least("share", line->share, home_share_min)}) && held;
        json[mode.name] = to_json(*line);
    }
    if (json.contains("light")) json["share"] = json["light"]["share"];
    json["ok"] = held;
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
