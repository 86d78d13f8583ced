#include "experiments/grid_command.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/measure/median.h"
#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/sim/bowl.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t vector_elements = 500'000;
constexpr double samples_per_s = 16;
constexpr std::uint64_t samples_each = 64;  // of a batch

VirtualRunOptions collaboration(const GridCommand& command, std::size_t group_max) {
    VirtualRunOptions options;
    options.run.name = "grid";
    options.run.batch.target = samples_each * command.peers;
    options.run.batch.micro = 4;
    options.run.optimizer.schedule.peak = 0.02;
    options.run.averaging.group_max = group_max;
    options.run.averaging.round_deadline_min = std::chrono::seconds(30);
    VirtualMachine machine;
    machine.samples_per_s = samples_per_s;
    machine.line = VirtualLine::both_ways(
        static_cast<double>(codec::encoded_size(*options.run.averaging.codec, vector_elements)));
    options.machines.assign(command.peers, machine);
    options.make_learner = [](const PeerId& peer) { return make_bowl(vector_elements, peer); };
    options.steps = command.steps;
    return options;
}

nlohmann::ordered_json row_of(const GridCommand& command,
                              std::size_t group_max,
                              const VirtualResult& result) {
    std::vector<double> rounds;
    double lost = result.samples_expired + static_cast<double>(result.samples_dropped);
    for (const BookedStep& step : result.steps)
        if (step.round_s > 0) rounds.push_back(step.round_s);
    const auto steps = static_cast<double>(std::max<std::size_t>(1, result.steps.size() - 1));
    return {{"group_max", group_max},
            {"groups", (command.peers + group_max - 1) / group_max},
            {"round_s", measure::median(rounds)},
            {"bytes_a_peer_and_step", result.bytes / steps / static_cast<double>(command.peers)},
            {"samples_lost", lost},
            {"identical", result.identical}};
}

}  // namespace

int run_grid(const GridCommand& command) {
    std::vector<std::size_t> sizes{command.peers};
    const std::vector<std::size_t> usual{8, 4};
    const auto& asked = command.group_max.empty() ? usual : command.group_max;
    sizes.insert(sizes.end(), asked.begin(), asked.end());
    fmt::print("{} peers; the vector takes a second each way\n", command.peers);
    fmt::print("{:>9}  {:>6}  {:>9}  {:>14}  {:>12}\n",
               "group_max",
               "groups",
               "round, s",
               "MB a peer, step",
               "samples lost");
    bool good = true;
    auto rows = nlohmann::ordered_json::array();
    for (const std::size_t group_max : sizes) {
        const auto result = run_virtually(collaboration(command, group_max));
        if (!result) return exit_after(result.error());
        const auto& row = rows.emplace_back(row_of(command, group_max, *result));
        const std::string command_words = fmt::format("grid --group-max {}", group_max);
        const bool lost_none =
            all_hold(command_words, {at_most("samples_lost", row["samples_lost"], 0)});
        good = is_identical(command_words, result->identical) && lost_none && good;
        fmt::print("{:>9}  {:>6}  {:>9.2f}  {:>14.2f}  {:>12}\n",
                   group_max,
                   row["groups"].get<std::size_t>(),
                   row["round_s"].get<double>(),
                   row["bytes_a_peer_and_step"].get<double>() / 1e6,
                   row["samples_lost"].get<double>());
        std::fflush(stdout);
    }
    nlohmann::ordered_json json{{"peers", command.peers}, {"rows", rows}, {"good", good}};
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
