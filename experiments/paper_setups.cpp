#include "experiments/paper_setups.h"

#include <algorithm>

#include "dedloc/planner/split.h"

#include "tests/sim/image_task.h"

namespace dedloc::lab {
namespace {

constexpr double target_batch = 4096;  // of sixteen trainers
constexpr std::uint64_t micro_batch = 16;
constexpr double element_bytes = 2;  // fp16
constexpr std::uint64_t part_elements = 65'536;
constexpr std::uint64_t part_elements_min = 256;
constexpr double fast_mbit = 25'000;
constexpr double aggregator_mbit = 500;
constexpr double part_time_mbit = 100;
constexpr double home_up_mbit = 20;
constexpr double home_down_mbit = 200;

double bytes_per_s(double mbit) { return mbit * 1e6 / 8; }

std::vector<VirtualLine> lines_of(std::size_t count, double mbit) {
    return std::vector<VirtualLine>(count, VirtualLine::both_ways(bytes_per_s(mbit)));
}

// The paper's four, eight and four.
std::vector<VirtualLine> three_kinds(std::size_t trainers) {
    std::vector<VirtualLine> lines = lines_of(trainers / 4, 200);
    const std::vector<VirtualLine> middle = lines_of(trainers / 2, 100);
    const std::vector<VirtualLine> slow = lines_of(trainers / 4, 50);
    lines.insert(lines.end(), middle.begin(), middle.end());
    lines.insert(lines.end(), slow.begin(), slow.end());
    return lines;
}

}  // namespace

std::vector<PaperSetup> paper_setups(std::size_t trainers) {
    const auto mixed = three_kinds(trainers);
    const std::vector<VirtualLine> home(
        trainers, VirtualLine{bytes_per_s(home_up_mbit), bytes_per_s(home_down_mbit)});
    const auto aggregators = lines_of(trainers / 4, aggregator_mbit);
    const auto part_timers = lines_of(trainers / 2, part_time_mbit);
    return {{.name = "fast", .trainers = lines_of(trainers, fast_mbit)},
            {.name = "equal", .trainers = mixed, .equal_parts = true},
            {.name = "balanced", .trainers = mixed},
            {.name = "aux", .trainers = mixed, .aggregators = aggregators},
            {.name = "part-time", .trainers = mixed, .part_time = part_timers},
            {.name = "home", .trainers = home},
            {.name = "home-aux", .trainers = home, .aggregators = aggregators}};
}

double exchange_s_predicted(const PaperSetup& setup, std::uint64_t elements) {
    std::vector<planner::PeerRates> rates;
    const auto add = [&rates](const VirtualLine& line, bool trains) {
        planner::PeerRates peer;
        peer.upload_per_s = line.up_bytes_per_s / element_bytes;
        peer.download_per_s = line.down_bytes_per_s / element_bytes;
        peer.contributes = peer.receives = trains;
        rates.push_back(peer);
    };
    for (const VirtualLine& line : setup.trainers) add(line, true);
    for (const VirtualLine& line : setup.aggregators) add(line, false);
    if (setup.equal_parts) {
        const std::vector<double> equal(rates.size(), 1.0);
        return planner::predicted_seconds(rates, planner::apportion(equal, elements));
    }
    const auto split = planner::split_elements(rates, elements);
    return split ? split->seconds : 0;
}

run::RunFile paper_run(std::size_t trainers, std::uint64_t lines_divisor, double time_divisor) {
    run::RunFile run = image_run();
    run.name = "paper";
    const double share = static_cast<double>(trainers) / static_cast<double>(paper_trainers);
    run.batch.target = static_cast<std::uint64_t>(target_batch * share / time_divisor);
    run.batch.micro = std::max<std::uint64_t>(
        static_cast<std::uint64_t>(static_cast<double>(micro_batch) / time_divisor), 1);
    run.optimizer.kind = optim::OptimizerKind::lamb;
    run.optimizer.schedule.peak = 0.05;  // so that few steps show
    // A part takes a line as long as one of the whole vector would.
    run.averaging.part_elements_max = std::max(part_elements / lines_divisor, part_elements_min);
    run.averaging.round_deadline_min = 60s;  // nothing fails here
    run.averaging.round_deadline_max = 300s;
    run.averaging.quorum_timeout = 1000s;
    return run;
}

}  // namespace dedloc::lab
