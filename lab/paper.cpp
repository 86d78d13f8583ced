#include "lab/paper.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "dedloc/planner/split.h"

#include "lab/bowl.h"
#include "lab/paper_svg.h"
#include "lab/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr int exit_disk = 6;
constexpr int exit_check_failed = 9;
constexpr std::uint64_t albert_large = 17'847'474;
constexpr std::uint64_t target_batch = 4096;
constexpr std::uint64_t micro_batch = 4;
constexpr double element_bytes = 2;  // fp16
constexpr double fast_mbit = 25'000;
constexpr double aggregator_mbit = 500;
constexpr std::size_t aggregators = 4;
constexpr double part_time_mbit = 100;
constexpr std::size_t part_timers = 8;
constexpr double tolerance = 0.02;  // of a comparison of two measured times

struct Setup {
    std::string name;
    std::vector<double> mbit;  // of each trainer's link, up and down
    std::size_t part_time = 0;
    bool rates_known = true;
};

std::vector<double> four_eight_four() {
    std::vector<double> mbit(4, 200);
    mbit.insert(mbit.end(), 8, 100);
    mbit.insert(mbit.end(), 4, 50);
    return mbit;
}

std::vector<Setup> setups() {
    return {{"fast", std::vector<double>(16, fast_mbit), 0, true},
            {"equal", four_eight_four(), 0, false},
            {"balanced", four_eight_four(), 0, true},
            {"part-time", four_eight_four(), part_timers, true}};
}

struct Row {
    PaperLine line;
    double predicted_s = 0;  // the planner's, for the exchange alone
    double compute_share = 0;
    double samples_per_s = 0;
    double members = 0;  // mean
    bool identical = true;
};

double bytes_per_s(double mbit) { return mbit * 1e6 / 8; }

std::vector<planner::PeerRates> rates_of(const std::vector<double>& mbit, std::size_t helpers) {
    std::vector<planner::PeerRates> rates;
    for (const double rate : mbit) {
        planner::PeerRates peer;
        peer.upload_per_s = peer.download_per_s = bytes_per_s(rate) / element_bytes;
        rates.push_back(peer);
    }
    planner::PeerRates helper;
    helper.upload_per_s = helper.download_per_s = bytes_per_s(aggregator_mbit) / element_bytes;
    helper.contributes = false;
    helper.receives = false;
    rates.insert(rates.end(), helpers, helper);
    return rates;
}

// What the planner says that the exchange takes, with the parts it would make or equal ones.
double predicted_s(const Setup& setup, std::size_t helpers) {
    const auto rates = rates_of(setup.mbit, helpers);
    if (!setup.rates_known) {
        const std::vector<double> equal(rates.size(), 1.0);
        return planner::predicted_seconds(rates, planner::apportion(equal, albert_large));
    }
    const auto split = planner::split_elements(rates, albert_large);
    return split ? split->seconds : 0;
}

collab::RunFile run_file() {
    collab::RunFile run;
    run.name = "paper";
    run.batch.target = target_batch;
    run.batch.micro = micro_batch;
    run.optimizer.kind = optim::OptimizerKind::lamb;
    run.optimizer.schedule.peak = 0.01;
    run.averaging.part_elements_max = 16384;
    run.averaging.round_deadline_min = 60s;  // nothing fails here
    run.averaging.round_deadline_max = 300s;
    return run;
}

VirtualRunOptions options_for(const PaperCommand& command, const Setup& setup) {
    VirtualRunOptions options;
    options.run = run_file();
    options.rates_known = setup.rates_known;
    options.steps = command.steps;
    options.seed = command.seed;
    const auto elements = static_cast<std::size_t>(albert_large / command.scale);
    options.make_learner = [elements](const PeerId& peer) { return make_bowl(elements, peer); };
    for (std::size_t i = 0; i < setup.mbit.size() + setup.part_time; ++i) {
        const bool part_time = i >= setup.mbit.size();
        const double mbit = part_time ? part_time_mbit : setup.mbit[i];
        VirtualTrainer trainer;
        trainer.upload_bytes_per_s = trainer.download_bytes_per_s =
            bytes_per_s(mbit) / static_cast<double>(command.scale);
        trainer.samples_per_s = command.samples_per_s;
        if (part_time) {  // one after the other, so that about two thirds are there at a time
            trainer.joins_at = 20s + 15s * static_cast<int>(i - setup.mbit.size());
            trainer.stays = 120s;
            trainer.away = 60s;
        }
        options.trainers.push_back(trainer);
    }
    return options;
}

Row row_of(const PaperCommand& command, const Setup& setup, const VirtualResult& result) {
    Row row;
    row.line.name = setup.name;
    row.identical = result.identical;
    row.compute_share = result.compute_share;
    row.predicted_s = predicted_s(setup, 0);
    // Part-timers change the pace; the last third of the steps is when they are there.
    const std::vector<VirtualStep>& steps = result.steps;
    const std::size_t first = setup.part_time > 0 ? steps.size() * 2 / 3 : 0;
    const auto counted = static_cast<double>(steps.size() - 1 - first);
    row.line.step_s = (steps.back().at_s - steps[first].at_s) / counted;
    double samples = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (i > 0) samples += steps[i].samples;
        row.line.points.push_back({steps[i].at_s - steps.front().at_s, samples});
        if (i <= first) continue;
        row.line.averaging_s += steps[i].round_s / counted;
        row.members += static_cast<double>(steps[i].members) / counted;
    }
    row.samples_per_s = samples / row.line.points.back().at_s;
    (void)command;
    return row;
}

// The balanced measurement, its round shortened as the planner says that aggregators would.
Row with_aggregators(const Row& balanced) {
    Setup setup;
    setup.mbit = four_eight_four();
    Row row = balanced;
    row.line.name = "aux";
    row.line.predicted = true;
    row.line.points.clear();
    row.predicted_s = predicted_s(setup, aggregators);
    const double rest = balanced.line.step_s - balanced.line.averaging_s;
    row.line.averaging_s *= row.predicted_s / balanced.predicted_s;
    row.line.step_s = rest + row.line.averaging_s;
    row.compute_share = balanced.compute_share * balanced.line.step_s / row.line.step_s;
    row.samples_per_s = static_cast<double>(target_batch) / row.line.step_s;
    return row;
}

nlohmann::ordered_json json_of(const Row& row) {
    return {{"name", row.line.name},
            {"step_seconds", row.line.step_s},
            {"averaging_seconds", row.line.averaging_s},
            {"exchange_seconds_predicted", row.predicted_s},
            {"samples_per_s", row.samples_per_s},
            {"compute_share", row.compute_share},
            {"members", row.members},
            {"from_planner", row.line.predicted},
            {"identical", row.identical}};
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
                   "{:<11}{:>9.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>11.0f}{:>9.1f}{}\n",
                   row.line.name,
                   row.line.step_s,
                   row.line.step_s - row.line.averaging_s,
                   row.line.averaging_s,
                   row.predicted_s,
                   row.samples_per_s,
                   row.members,
                   row.line.predicted ? "  predicted" : "");
    fmt::print(out, "* what the planner predicts for the exchange alone\n");
    std::fflush(out);
}

double step_seconds(const std::vector<Row>& rows, std::string_view name) {
    for (const Row& row : rows)
        if (row.line.name == name) return row.line.step_s;
    return 0;
}

bool write(const std::string& path, const std::string& content) {
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.flush();
    if (!file) fmt::print(stderr, "dedloc: cannot write {}\n", path);
    return file.good();
}

bool measure(const PaperCommand& command, std::vector<Row>& rows) {
    for (const Setup& setup : setups()) {
        const auto begun = std::chrono::steady_clock::now();
        const auto result = run_virtually(options_for(command, setup));
        if (!result || result->steps.size() < 4) {
            fmt::print(stderr,
                       "dedloc: {}: {}\n",
                       setup.name,
                       result ? "too few steps were made" : result.error().message());
            return false;
        }
        rows.push_back(row_of(command, setup, *result));
        fmt::print(stderr,
                   "{}: {} steps, {:.0f} s\n",
                   setup.name,
                   result->steps.size(),
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
        if (setup.name == "balanced") rows.push_back(with_aggregators(rows.back()));
    }
    return true;
}

}  // namespace

int run_paper(const PaperCommand& command) {
    std::vector<Row> rows;
    if (!measure(command, rows)) return exit_check_failed;
    const double equal = step_seconds(rows, "equal");
    const double balanced = step_seconds(rows, "balanced");
    const double aux = step_seconds(rows, "aux");
    const double part_time = step_seconds(rows, "part-time");
    const bool identical =
        std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.identical; });
    const bool held =
        identical && balanced < equal && aux <= balanced * (1 + tolerance) && part_time < balanced;
    print_table(command.json ? stderr : stdout, rows);
    nlohmann::ordered_json json{{"ok", held},
                                {"equal_seconds", equal},
                                {"balanced_seconds", balanced},
                                {"aux_seconds", aux},
                                {"aux_from_planner", true},
                                {"part_time_seconds", part_time},
                                {"fast_seconds", step_seconds(rows, "fast")},
                                {"identical", identical},
                                {"scale", command.scale},
                                {"setups", nlohmann::ordered_json::array()}};
    std::vector<PaperLine> lines;
    for (const Row& row : rows) {
        json["setups"].push_back(json_of(row));
        lines.push_back(row.line);
    }
    const bool written = write(command.directory + "/paper.json", json.dump(2) + "\n") &&
                         write(command.directory + "/paper.svg", paper_svg(lines));
    if (command.json) fmt::print("{}\n", json.dump());
    if (!written) return exit_disk;
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
