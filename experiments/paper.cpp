#include "experiments/paper.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "dedloc/monitor/json_line.h"

#include "experiments/paper_processes.h"
#include "experiments/paper_setups.h"
#include "experiments/paper_svg.h"
#include "tests/common/exit_codes.h"
#include "tests/netns/link_topology.h"
#include "tests/process/process_folder.h"
#include "tests/sim/bowl.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t virtual_scale = 8;
constexpr std::uint64_t namespaces_scale = 16;
constexpr std::uint64_t namespaces_lines_divisor = 8;
constexpr std::size_t namespaces_trainers = 8;
constexpr std::uint64_t virtual_steps = 12;
constexpr std::uint64_t namespaces_steps = 8;
constexpr std::size_t unsent_bytes = 256 << 10;  // what p2p lets a connection keep
constexpr double ratio_held = 0.8;               // of the predicted gain, at least
constexpr double noise = 1.02;                   // by which a step may be longer and yet be as long
constexpr double noise_of_processes = 1.1;
constexpr std::size_t steps_min = 4;

// Where, and how much smaller than in the paper.
struct Bench {
    bool namespaces = false;
    std::size_t trainers = paper_trainers;
    std::uint64_t lines_divisor = virtual_scale;
    double time_divisor = 1;  // the vector is smaller by both

    double seconds(double of_full) const { return of_full / time_divisor; }
};

Bench bench_of(const PaperCommand& command) {
    Bench bench;
    bench.namespaces = command.in_namespaces;
    bench.trainers = command.trainers;
    if (bench.trainers == 0)
        bench.trainers = bench.namespaces ? namespaces_trainers : paper_trainers;
    if (!bench.namespaces) {
        bench.lines_divisor = command.scale > 0 ? command.scale : virtual_scale;
        return bench;
    }
    const std::uint64_t scale = command.scale > 0 ? command.scale : namespaces_scale;
    bench.lines_divisor = std::min(scale, namespaces_lines_divisor);
    bench.time_divisor = static_cast<double>(scale) / static_cast<double>(bench.lines_divisor);
    return bench;
}

struct Row {
    PaperLine line;
    double predicted_s = 0;  // the planner's, for the exchange alone
    double compute_share = 0;
    double samples_per_s = 0;
    double members = 0;  // mean
    std::uint64_t rounds_of_aggregators = 0;
    bool identical = true;
};

// Part-timers must have time to come, go and come again.
std::uint64_t steps_of(const PaperCommand& command, const PaperSetup& setup) {
    const std::uint64_t usual = command.in_namespaces ? namespaces_steps : virtual_steps;
    const std::uint64_t steps = command.steps > 0 ? command.steps : usual;
    return setup.part_time.empty() ? steps : 2 * steps;
}

VirtualRunOptions options_for(const PaperCommand& command,
                              const Bench& bench,
                              const PaperSetup& setup) {
    VirtualRunOptions options;
    options.run = paper_run(bench.trainers, bench.lines_divisor, bench.time_divisor);
    options.equal_parts = setup.equal_parts;
    options.steps = steps_of(command, setup);
    options.seed = command.seed;
    options.stream_window_bytes = unsent_bytes / bench.lines_divisor;
    const auto elements = static_cast<std::size_t>(albert_large_elements / bench.lines_divisor);
    options.make_learner = [elements](const PeerId& peer) { return make_bowl(elements, peer); };
    VirtualMachine machine;
    machine.samples_per_s = command.samples_per_s;
    const auto add = [&](const VirtualLine& line) {
        machine.line = line.times(1.0 / static_cast<double>(bench.lines_divisor));
        options.machines.push_back(machine);
    };
    for (const VirtualLine& line : setup.trainers) add(line);
    // One after the other, so that about two thirds are there at a time.
    machine.stays = from_seconds(part_time_stays_s);
    machine.away = from_seconds(part_time_away_s);
    for (std::size_t i = 0; i < setup.part_time.size(); ++i) {
        machine.joins_at = from_seconds(part_time_first_s * static_cast<double>(i + 1));
        add(setup.part_time[i]);
    }
    machine = {};
    machine.aggregates = true;
    for (const VirtualLine& line : setup.aggregators) add(line);
    return options;
}

PaperRun run_of(const VirtualResult& result) {
    PaperRun run;
    run.steps = result.steps;
    for (BookedStep& step : run.steps) step.at_s -= result.steps.front().at_s;
    run.compute_share = result.compute_share;
    run.rounds_of_aggregators = result.rounds_of_aggregators;
    run.identical = result.identical;
    return run;
}

Row row_of(const PaperSetup& setup, const Bench& bench, const PaperRun& run) {
    Row row;
    row.line.name = setup.name;
    row.identical = run.identical;
    row.compute_share = run.compute_share;
    row.rounds_of_aggregators = run.rounds_of_aggregators;
    row.predicted_s = bench.seconds(exchange_s_predicted(setup));
    // Part-timers change the pace; the first third of the steps is when they come.
    const std::vector<BookedStep>& steps = run.steps;
    const std::size_t first = setup.part_time.empty() ? 0 : steps.size() / 3;
    const auto counted = static_cast<double>(steps.size() - 1 - first);
    row.line.step_s = (steps.back().at_s - steps[first].at_s) / counted;
    double samples = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        row.line.points.push_back({steps[i].at_s, steps[i].loss});
        if (i <= first) continue;
        samples += steps[i].samples;
        row.line.averaging_s += steps[i].round_s / counted;
        row.members += static_cast<double>(steps[i].members) / counted;
    }
    row.samples_per_s = samples / (row.line.step_s * counted);
    return row;
}

nlohmann::ordered_json json_of(const Row& row) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const PaperLine::Point& point : row.line.points)
        points.push_back({point.at_s, point.loss});
    return {{"name", row.line.name},
            {"step_seconds", row.line.step_s},
            {"averaging_seconds", row.line.averaging_s},
            {"exchange_seconds_predicted", row.predicted_s},
            {"samples_per_s", row.samples_per_s},
            {"compute_share", row.compute_share},
            {"members", row.members},
            {"rounds_of_aggregators", row.rounds_of_aggregators},
            {"identical", row.identical},
            {"loss_at_seconds", points}};
}

void print_table(std::FILE* out, const std::vector<Row>& rows) {
    fmt::print(out,
               "{:<11}{:>9}{:>12}{:>12}{:>12}{:>11}{:>9}\n",
               "",
               "step, s",
               "computing",
               "averaging",
               "exchange *",
               "samples/s",
               "members");
    for (const Row& row : rows)
        fmt::print(out,
                   "{:<11}{:>9.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>11.0f}{:>9.1f}\n",
                   row.line.name,
                   row.line.step_s,
                   row.line.step_s - row.line.averaging_s,
                   row.line.averaging_s,
                   row.predicted_s,
                   row.samples_per_s,
                   row.members);
    fmt::print(out, "* what the planner predicts for the exchange alone\n");
    std::fflush(out);
}

const Row& row(const std::vector<Row>& rows, std::string_view name) {
    return *std::ranges::find_if(rows, [name](const Row& each) { return each.line.name == name; });
}

bool write(const std::string& path, const std::string& content) {
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.flush();
    if (!file) fmt::print(stderr, "dedloc: cannot write {}\n", path);
    return file.good();
}

Result<PaperRun> run_one(const PaperCommand& command, const Bench& bench, const PaperSetup& setup) {
    if (!bench.namespaces) {
        DEDLOC_TRY(const VirtualResult result, run_virtually(options_for(command, bench, setup)));
        return run_of(result);
    }
    return run_paper_processes(
        {.program = command.program.empty() ? dedloc_program() : command.program,
         .steps = steps_of(command, setup),
         .lines_divisor = bench.lines_divisor,
         .time_divisor = bench.time_divisor,
         .samples_per_s = command.samples_per_s},
        setup);
}

std::optional<Row> measure_one(const PaperCommand& command,
                               const Bench& bench,
                               const PaperSetup& setup) {
    const auto begun = std::chrono::steady_clock::now();
    const auto run = run_one(command, bench, setup);
    if (!run || run->steps.size() < steps_min) {
        fmt::print(stderr,
                   "dedloc: {}: {}\n",
                   setup.name,
                   run ? "too few steps were made" : run.error().message());
        return std::nullopt;
    }
    fmt::print(stderr,
               "{}: {} steps, {:.0f} s\n",
               setup.name,
               run->steps.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    return row_of(setup, bench, *run);
}

// In virtual time setups are measured side by side, as many as there are cores: each has a world of
// its own. Processes share the machine: one after the other.
bool measure(const PaperCommand& command, const Bench& bench, std::vector<Row>& rows) {
    std::vector<PaperSetup> wanted = paper_setups(bench.trainers);
    std::erase_if(wanted, [&command](const PaperSetup& setup) {
        return !command.only.empty() &&
               std::ranges::find(command.only, setup.name) == command.only.end();
    });
    std::vector<std::optional<Row>> measured(wanted.size());
    std::atomic<std::size_t> next = 0;
    {
        const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
        const std::size_t side_by_side = bench.namespaces ? 1 : std::min(cores, wanted.size());
        std::vector<std::jthread> workers;
        for (std::size_t i = 0; i < side_by_side; ++i)
            workers.emplace_back([&] {
                for (std::size_t k = next++; k < wanted.size(); k = next++)
                    measured[k] = measure_one(command, bench, wanted[k]);
            });
    }
    for (std::optional<Row>& row : measured) {
        if (!row) return false;
        rows.push_back(*std::move(row));
    }
    return true;
}

// How much shorter a round is than that of another setup, of how much shorter it should be.
double gain(const Row& slow, const Row& fast) {
    return slow.line.averaging_s / fast.line.averaging_s;
}
double gain_predicted(const Row& slow, const Row& fast) {
    return slow.predicted_s / fast.predicted_s;
}

// Is everything as in the paper? Says so in `json`, too.
bool compare(const std::vector<Row>& rows, double slack, nlohmann::ordered_json& json) {
    const Row& equal = row(rows, "equal");
    const Row& balanced = row(rows, "balanced");
    const Row& aux = row(rows, "aux");
    const Row& part_time = row(rows, "part-time");
    const Row& home = row(rows, "home");
    const Row& home_aux = row(rows, "home-aux");
    json["equal_seconds"] = equal.line.step_s;
    json["balanced_seconds"] = balanced.line.step_s;
    json["aux_seconds"] = aux.line.step_s;
    json["part_time_seconds"] = part_time.line.step_s;
    json["fast_seconds"] = row(rows, "fast").line.step_s;
    json["home_seconds"] = home.line.step_s;
    json["home_aux_seconds"] = home_aux.line.step_s;
    json["balancing_gain"] = gain(equal, balanced);
    json["balancing_gain_predicted"] = gain_predicted(equal, balanced);
    json["aux_gain"] = gain(balanced, aux);
    json["aux_gain_predicted"] = gain_predicted(balanced, aux);
    json["home_aux_gain"] = gain(home, home_aux);
    json["home_aux_gain_predicted"] = gain_predicted(home, home_aux);
    const auto gain_bound = [](const char* name, const Row& slow, const Row& fast) {
        return at_least(name, gain(slow, fast), ratio_held * gain_predicted(slow, fast));
    };
    const auto step_bound = [](const char* name, const Row& fast, const Row& slow, double factor) {
        return at_most(name, fast.line.step_s, slow.line.step_s * factor);
    };
    return all_hold("paper",
                    {gain_bound("balancing_gain", equal, balanced),
                     gain_bound("aux_gain", balanced, aux),
                     gain_bound("home_aux_gain", home, home_aux),
                     step_bound("balanced_seconds", balanced, equal, 1),
                     step_bound("aux_seconds", aux, balanced, slack),
                     step_bound("part_time_seconds", part_time, balanced, 1)});
}

}  // namespace

std::vector<std::string> paper_setup_names() {
    std::vector<std::string> names;
    for (const PaperSetup& setup : paper_setups()) names.push_back(setup.name);
    return names;
}

int run_paper(const PaperCommand& command) {
    const Bench bench = bench_of(command);
    const std::string why = bench.namespaces ? LinkTopology::why_not(false) : "";
    if (!why.empty()) {
        fmt::print(stderr, "dedloc-lab paper: skipped: {}\n", why);
        return exit_skipped;
    }
    std::vector<Row> rows;
    if (!measure(command, bench, rows)) return exit_check_failed;
    print_table(command.json ? stderr : stdout, rows);
    nlohmann::ordered_json json{{"ok", false}};
    const bool identical =
        std::ranges::all_of(rows, [](const Row& each) { return each.identical; });
    const bool as_in_paper =
        !command.only.empty() || compare(rows, bench.namespaces ? noise_of_processes : noise, json);
    const bool held = is_identical("paper", identical) && as_in_paper;
    json["ok"] = held;
    json["identical"] = identical;
    json["where"] = bench.namespaces ? "namespaces" : "virtual time";
    json["trainers"] = bench.trainers;
    json["scale"] = static_cast<double>(bench.lines_divisor) * bench.time_divisor;
    json["time_divisor"] = bench.time_divisor;
    json["setups"] = nlohmann::ordered_json::array();
    std::vector<PaperLine> lines;
    for (const Row& each : rows) {
        json["setups"].push_back(json_of(each));
        lines.push_back(each.line);
    }
    const bool written = write(command.directory + "/paper.json", json.dump(2) + "\n") &&
                         write(command.directory + "/paper.svg", paper_svg(lines));
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    if (!written) return exit_disk;
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
