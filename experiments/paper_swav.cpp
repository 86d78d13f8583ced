#include "experiments/paper_swav.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "dedloc/monitor/json_line.h"

#include "experiments/paper_setups.h"
#include "tests/common/exit_codes.h"
#include "tests/sim/bowl.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t swav_elements = 28'411'968;
constexpr std::uint64_t swav_target = 32'768;
constexpr std::uint64_t swav_micro = 64;
constexpr std::uint64_t swav_part_elements = 131'072;  // in full
constexpr double server_mbit = 1000;
constexpr double workstation_mbit = 200;
constexpr std::size_t servers = 8;
constexpr std::size_t workstations = 16;
constexpr double server_samples_per_s = 90;
constexpr double workstation_samples_per_s = 45;
constexpr std::size_t swav_unsent_bytes = 256 << 10;
constexpr double exchange_ratio_most = 1.15;
constexpr double hybrid_share_least = 0.9;
constexpr Duration swav_time_max = 7200s;

struct Kind {
    std::size_t count;
    double mbit;
    double samples_per_s;
};

struct SwavSetup {
    std::string name;
    std::vector<Kind> kinds;
};

std::vector<SwavSetup> swav_setups() {
    const Kind server{servers, server_mbit, server_samples_per_s};
    const Kind workstation{workstations, workstation_mbit, workstation_samples_per_s};
    return {
        {"server", {server}}, {"workstation", {workstation}}, {"hybrid", {server, workstation}}};
}

run::RunFile swav_run(std::uint64_t scale) {
    run::RunFile run = paper_run(paper_trainers, scale, 1);
    run.name = "paper-swav";
    run.batch.target = swav_target;
    run.batch.micro = swav_micro;
    run.optimizer = {};
    run.averaging.part_elements_max = swav_part_elements / scale;
    return run;
}

double bytes_per_s_of(double mbit) { return mbit * 1e6 / 8; }

struct SwavMeasured {
    PaperSwavBar bar;
    double step_s = 0;
    double waiting_s = 0;  // from a trainer's hand-in to the new state, mean
    bool identical = true;
};

Result<SwavMeasured> measure_setup(const PaperSwavCommand& command, const SwavSetup& setup) {
    PaperSetup lines{.name = setup.name, .trainers = {}};
    VirtualRunOptions options;
    options.run = swav_run(command.scale);
    options.steps = command.steps;
    options.seed = command.seed;
    options.time_max = swav_time_max;
    options.stream_window_bytes = swav_unsent_bytes / command.scale;
    const auto elements = static_cast<std::size_t>(swav_elements / command.scale);
    options.make_learner = [elements](const PeerId& peer) { return make_bowl(elements, peer); };
    for (const Kind& kind : setup.kinds)
        for (std::size_t i = 0; i < kind.count; ++i) {
            const auto line = VirtualLine::both_ways(bytes_per_s_of(kind.mbit));
            lines.trainers.push_back(line);
            options.machines.push_back(
                {.line = line.times(1.0 / static_cast<double>(command.scale)),
                 .samples_per_s = kind.samples_per_s});
        }
    DEDLOC_TRY(const VirtualResult result, run_virtually(options));
    if (result.steps.size() < 2)
        return make_error(ErrorKind::timeout, "{}: too few steps were made", setup.name);
    SwavMeasured measured;
    measured.identical = result.identical;
    measured.bar.name = setup.name;
    measured.bar.planned_s = exchange_s_predicted(lines, swav_elements);
    const auto counted = static_cast<double>(result.steps.size() - 1);
    double samples = 0;
    for (const BookedStep& step : result.steps) {
        if (&step == &result.steps.front()) continue;
        samples += step.samples;
        measured.bar.exchange_s += step.exchange_s / counted;
        measured.waiting_s += step.round_s / counted;
    }
    measured.step_s = (result.steps.back().at_s - result.steps.front().at_s) / counted;
    measured.bar.samples_per_s = samples / (measured.step_s * counted);
    return measured;
}

// Each in a world of its own, as many side by side as there are cores.
Result<std::vector<SwavMeasured>> measure_setups(const PaperSwavCommand& command) {
    const std::vector<SwavSetup> setups = swav_setups();
    std::vector<std::optional<Result<SwavMeasured>>> measured(setups.size());
    std::atomic<std::size_t> next = 0;
    {
        const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
        std::vector<std::jthread> workers;
        for (std::size_t i = 0; i < std::min(cores, setups.size()); ++i)
            workers.emplace_back([&] {
                for (std::size_t k = next++; k < setups.size(); k = next++)
                    measured[k] = measure_setup(command, setups[k]);
            });
    }
    std::vector<SwavMeasured> all;
    for (auto& one : measured) {
        if (!*one) return one->error();
        all.push_back(**std::move(one));
    }
    return all;
}

void print_setups(std::FILE* out, const std::vector<SwavMeasured>& all) {
    fmt::print(out,
               "{:<13}{:>9}{:>13}{:>12}{:>12}{:>9}\n",
               "",
               "step, s",
               "samples/s",
               "exchange, s",
               "planned, s",
               "ratio");
    for (const SwavMeasured& one : all)
        fmt::print(out,
                   "{:<13}{:>9.1f}{:>13.0f}{:>12.2f}{:>12.2f}{:>9.3f}\n",
                   one.bar.name,
                   one.step_s,
                   one.bar.samples_per_s,
                   one.bar.exchange_s,
                   one.bar.planned_s,
                   one.bar.exchange_s / one.bar.planned_s);
    std::fflush(out);
}

nlohmann::ordered_json swav_json(const SwavMeasured& one) {
    return {{"name", one.bar.name},
            {"step_seconds", one.step_s},
            {"samples_per_s", one.bar.samples_per_s},
            {"exchange_seconds", one.bar.exchange_s},
            {"exchange_seconds_planned", one.bar.planned_s},
            {"ratio", one.bar.exchange_s / one.bar.planned_s},
            {"waiting_seconds", one.waiting_s},
            {"identical", one.identical}};
}

bool write_file(const std::string& path, const std::string& content) {
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.flush();
    if (!file) fmt::print(stderr, "dedloc: cannot write {}\n", path);
    return file.good();
}

}  // namespace

int run_paper_swav(const PaperSwavCommand& command) {
    const auto measured = measure_setups(command);
    if (!measured) return exit_after(measured.error());
    print_setups(command.json ? stderr : stdout, *measured);
    const double apart = measured->at(0).bar.samples_per_s + measured->at(1).bar.samples_per_s;
    const double share = measured->at(2).bar.samples_per_s / apart;
    std::vector<Bound> bounds{at_least("hybrid_share", share, hybrid_share_least)};
    nlohmann::ordered_json json{{"ok", false}, {"hybrid_share", share}};
    std::vector<PaperSwavBar> bars;
    bool identical = true;
    for (const SwavMeasured& one : *measured) {
        const double ratio = one.bar.exchange_s / one.bar.planned_s;
        json[one.bar.name + "_ratio"] = ratio;
        json[one.bar.name + "_samples_per_s"] = one.bar.samples_per_s;
        bounds.push_back(at_most(one.bar.name + "_ratio", ratio, exchange_ratio_most));
        identical = identical && one.identical;
        bars.push_back(one.bar);
    }
    const bool held = is_identical("paper", identical) && all_hold("paper", bounds);
    json["ok"] = held;
    json["identical"] = identical;
    json["scale"] = command.scale;
    json["setups"] = nlohmann::ordered_json::array();
    for (const SwavMeasured& one : *measured) json["setups"].push_back(swav_json(one));
    const bool written = write_file(command.directory + "/paper-swav.json", json.dump(2) + "\n") &&
                         write_file(command.directory + "/paper-swav.svg", paper_swav_svg(bars));
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    if (!written) return exit_disk;
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
