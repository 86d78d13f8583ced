#include "lab/paper.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "dedloc/planner/split.h"

#include "lab/bowl.h"
#include "lab/exit_codes.h"
#include "lab/paper_svg.h"
#include "lab/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t albert_large = 17'847'474;
constexpr std::uint64_t target_batch = 4096;
constexpr std::uint64_t micro_batch = 16;
constexpr double element_bytes = 2;  // fp16
constexpr std::uint64_t part_elements = 65'536;
constexpr std::uint64_t part_elements_min = 256;
constexpr std::size_t unsent_bytes = 256 << 10;  // what p2p lets a connection keep
constexpr double fast_mbit = 25'000;
constexpr double aggregator_mbit = 500;
constexpr double home_up_mbit = 20;
constexpr double home_down_mbit = 200;
constexpr std::size_t aggregators_added = 4;
constexpr double part_time_mbit = 100;
constexpr std::size_t part_timers = 8;
constexpr double ratio_held = 0.8;  // of the predicted gain, at least
constexpr double noise = 1.02;      // by which a step may be longer and yet be as long

struct Setup {
    std::string name;
    std::vector<VirtualLine> lines;  // of each trainer
    std::size_t aggregators = 0;
    std::size_t part_time = 0;
    bool equal_parts = false;
};

double bytes_per_s(double mbit) { return mbit * 1e6 / 8; }
VirtualLine both_ways(double mbit) { return VirtualLine::both_ways(bytes_per_s(mbit)); }
std::vector<VirtualLine> sixteen(VirtualLine line) { return std::vector<VirtualLine>(16, line); }

std::vector<VirtualLine> four_eight_four() {
    std::vector<VirtualLine> lines(4, both_ways(200));
    lines.insert(lines.end(), 8, both_ways(100));
    lines.insert(lines.end(), 4, both_ways(50));
    return lines;
}

std::vector<Setup> setups() {
    const VirtualLine home{bytes_per_s(home_up_mbit), bytes_per_s(home_down_mbit)};
    return {{"fast", sixteen(both_ways(fast_mbit))},
            {"equal", four_eight_four(), 0, 0, true},
            {"balanced", four_eight_four()},
            {"aux", four_eight_four(), aggregators_added},
            {"part-time", four_eight_four(), 0, part_timers},
            {"home", sixteen(home)},
            {"home-aux", sixteen(home), aggregators_added}};
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

std::vector<planner::PeerRates> rates_of(const Setup& setup) {
    std::vector<planner::PeerRates> rates;
    const auto add = [&rates](const VirtualLine& line, bool trains) {
        planner::PeerRates peer;
        peer.upload_per_s = line.up_bytes_per_s / element_bytes;
        peer.download_per_s = line.down_bytes_per_s / element_bytes;
        peer.contributes = peer.receives = trains;
        rates.push_back(peer);
    };
    for (const VirtualLine& line : setup.lines) add(line, true);
    for (std::size_t i = 0; i < setup.aggregators; ++i) add(both_ways(aggregator_mbit), false);
    return rates;
}

// What the planner says that the exchange takes, with the parts it would make or equal ones;
// without those who come and go.
double predicted_s(const Setup& setup) {
    const auto rates = rates_of(setup);
    if (setup.equal_parts) {
        const std::vector<double> equal(rates.size(), 1.0);
        return planner::predicted_seconds(rates, planner::apportion(equal, albert_large));
    }
    const auto split = planner::split_elements(rates, albert_large);
    return split ? split->seconds : 0;
}

collab::RunFile run_file(std::uint64_t scale) {
    collab::RunFile run;
    run.name = "paper";
    run.batch.target = target_batch;
    run.batch.micro = micro_batch;
    run.optimizer.kind = optim::OptimizerKind::lamb;
    run.optimizer.schedule.peak = 0.05;  // so that few steps show
    // As many parts as the whole vector would have.
    run.averaging.part_elements_max = std::max(part_elements / scale, part_elements_min);
    run.averaging.round_deadline_min = 60s;  // nothing fails here
    run.averaging.round_deadline_max = 300s;
    run.averaging.quorum_timeout = 1000s;
    return run;
}

VirtualRunOptions options_for(const PaperCommand& command, const Setup& setup) {
    VirtualRunOptions options;
    options.run = run_file(command.scale);
    options.equal_parts = setup.equal_parts;
    options.steps = command.steps;
    options.seed = command.seed;
    options.stream_window_bytes = unsent_bytes / command.scale;
    const auto elements = static_cast<std::size_t>(albert_large / command.scale);
    options.make_learner = [elements](const PeerId& peer) { return make_bowl(elements, peer); };
    VirtualMachine machine;
    machine.samples_per_s = command.samples_per_s;
    const auto add = [&](const VirtualLine& line) {
        machine.line = line.times(1.0 / static_cast<double>(command.scale));
        options.machines.push_back(machine);
    };
    for (const VirtualLine& line : setup.lines) add(line);
    // One after the other, so that about two thirds are there at a time.
    machine.stays = 240s;
    machine.away = 120s;
    for (std::size_t i = 0; i < setup.part_time; ++i) {
        machine.joins_at = 10s + 10s * static_cast<int>(i);
        add(both_ways(part_time_mbit));
    }
    machine = {};
    machine.aggregates = true;
    for (std::size_t i = 0; i < setup.aggregators; ++i) add(both_ways(aggregator_mbit));
    return options;
}

Row row_of(const Setup& setup, const VirtualResult& result) {
    Row row;
    row.line.name = setup.name;
    row.identical = result.identical;
    row.compute_share = result.compute_share;
    row.rounds_of_aggregators = result.rounds_of_aggregators;
    row.predicted_s = predicted_s(setup);
    // Part-timers change the pace; the last third of the steps is when they are there.
    const std::vector<VirtualStep>& steps = result.steps;
    const std::size_t first = setup.part_time > 0 ? steps.size() * 2 / 3 : 0;
    const auto counted = static_cast<double>(steps.size() - 1 - first);
    row.line.step_s = (steps.back().at_s - steps[first].at_s) / counted;
    double samples = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        row.line.points.push_back({steps[i].at_s - steps.front().at_s, steps[i].loss});
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

std::optional<Row> measure_one(const PaperCommand& command, const Setup& setup) {
    const auto begun = std::chrono::steady_clock::now();
    const auto result = run_virtually(options_for(command, setup));
    if (!result || result->steps.size() < 4) {
        fmt::print(stderr,
                   "dedloc: {}: {}\n",
                   setup.name,
                   result ? "too few steps were made" : result.error().message());
        return std::nullopt;
    }
    fmt::print(stderr,
               "{}: {} steps, {:.0f} s\n",
               setup.name,
               result->steps.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    return row_of(setup, *result);
}

// Setups are measured side by side, as many as there are cores: each has a world of its own.
bool measure(const PaperCommand& command, std::vector<Row>& rows) {
    std::vector<Setup> wanted = setups();
    std::erase_if(wanted, [&command](const Setup& setup) {
        return !command.only.empty() &&
               std::ranges::find(command.only, setup.name) == command.only.end();
    });
    std::vector<std::optional<Row>> measured(wanted.size());
    std::atomic<std::size_t> next = 0;
    {
        const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
        std::vector<std::jthread> workers;
        for (std::size_t i = 0; i < std::min(cores, wanted.size()); ++i)
            workers.emplace_back([&] {
                for (std::size_t k = next++; k < wanted.size(); k = next++)
                    measured[k] = measure_one(command, wanted[k]);
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
bool compare(const std::vector<Row>& rows, nlohmann::ordered_json& json) {
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
    return gain(equal, balanced) >= ratio_held * gain_predicted(equal, balanced) &&
           gain(balanced, aux) >= ratio_held * gain_predicted(balanced, aux) &&
           gain(home, home_aux) >= ratio_held * gain_predicted(home, home_aux) &&
           balanced.line.step_s < equal.line.step_s &&
           aux.line.step_s < balanced.line.step_s * noise &&
           part_time.line.step_s < balanced.line.step_s;
}

}  // namespace

std::vector<std::string> paper_setups() {
    std::vector<std::string> names;
    for (const Setup& setup : setups()) names.push_back(setup.name);
    return names;
}

int run_paper(const PaperCommand& command) {
    std::vector<Row> rows;
    if (!measure(command, rows)) return exit_check_failed;
    print_table(command.json ? stderr : stdout, rows);
    nlohmann::ordered_json json{{"ok", false}};
    const bool identical =
        std::ranges::all_of(rows, [](const Row& each) { return each.identical; });
    const bool held = identical && (!command.only.empty() || compare(rows, json));
    json["ok"] = held;
    json["identical"] = identical;
    json["scale"] = command.scale;
    json["setups"] = nlohmann::ordered_json::array();
    std::vector<PaperLine> lines;
    for (const Row& each : rows) {
        json["setups"].push_back(json_of(each));
        lines.push_back(each.line);
    }
    const bool written = write(command.directory + "/paper.json", json.dump(2) + "\n") &&
                         write(command.directory + "/paper.svg", paper_svg(lines));
    if (command.json) fmt::print("{}\n", json.dump());
    if (!written) return exit_disk;
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
