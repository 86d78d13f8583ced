#include "lab/enumerate_command.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"

#include "lab/exit_codes.h"
#include "lab/seed_pool.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration just_after = 1us;   // a message has been handled
constexpr Duration fault_length = 8s;  // of freezes, slow lines and cuts; a dead one is back then
constexpr Duration settle = 12s;       // after the fault
constexpr double slow_seconds = 1.0;   // more, one way

struct SentMessage {
    TimePoint at;
    std::size_t from = 0;
    std::size_t to = 0;
    std::string method;
};

enum class Whom { sender, receiver };

struct Run {
    SentMessage message;
    sim::FaultKind kind = sim::FaultKind::kill;
    Whom whom = Whom::sender;

    std::size_t victim() const { return whom == Whom::sender ? message.from : message.to; }
    std::string name() const {
        return fmt::format(
            "{} {}", sim::to_string(kind), whom == Whom::sender ? "sender" : "receiver");
    }
    std::string text() const {
        return fmt::format("{} of {} from n{} to n{} at {:.6f} s",
                           name(),
                           message.method,
                           message.from,
                           message.to,
                           to_seconds(message.at.since_start));
    }
};

SimulationOptions calm(const EnumerateCommand& command) {
    SimulationOptions options;
    options.seed = command.seed;
    options.peers_min = command.peers;
    options.peers_max = command.peers;
    options.steady = true;
    options.tortures = 0;
    options.script = sim::FaultScript{};
    options.faults_for = 30s;
    options.liveness_within = 30s;
    return options;
}

// The messages between two commits of a run in which nothing goes wrong.
std::vector<SentMessage> messages_of_step(const EnumerateCommand& command) {
    std::vector<SentMessage> all;
    SimulationOptions options = calm(command);
    options.messages =
        [&all](TimePoint at, std::size_t from, std::size_t to, const std::string& method) {
            all.push_back({at, from, to, method});
        };
    const SimulationResult result = simulate(options);
    if (result.failed() || result.commit_times_s.size() <= command.step) return {};
    const double begin = result.commit_times_s[command.step - 1];
    const double end = result.commit_times_s[command.step];
    std::erase_if(all, [&](const SentMessage& message) {
        const double at = to_seconds(message.at.since_start);
        return at < begin || at > end || message.method.find(command.method) == std::string::npos;
    });
    return all;
}

std::vector<Run> runs_for(const std::vector<SentMessage>& messages) {
    std::vector<Run> runs;
    for (const SentMessage& message : messages)
        for (const sim::FaultKind kind : {sim::FaultKind::kill,
                                          sim::FaultKind::freeze,
                                          sim::FaultKind::latency,
                                          sim::FaultKind::partition})
            for (const Whom whom : {Whom::sender, Whom::receiver})
                runs.push_back({message, kind, whom});
    return runs;
}

SimulationOptions with_fault(const EnumerateCommand& command, const Run& run) {
    SimulationOptions options = calm(command);
    sim::Fault fault;
    fault.at = run.message.at.since_start + just_after;
    fault.length = fault_length;
    fault.kind = run.kind;
    fault.nodes = {run.victim()};
    if (run.kind == sim::FaultKind::latency) fault.amount = slow_seconds;
    if (run.kind == sim::FaultKind::partition) {
        fault.nodes.clear();
        for (std::size_t i = 0; i < command.peers; ++i)
            fault.group_of.push_back(i == run.victim() ? 1 : 0);
    }
    options.faults_for = fault.at + fault_length + settle;
    sim::FaultScript script;
    script.faults.push_back(std::move(fault));
    script.quiet_after = options.faults_for;
    options.script = std::move(script);
    return options;
}

int run_traced(const EnumerateCommand& command, const std::vector<Run>& runs) {
    bool failed = false;
    const std::uint64_t end = std::min<std::uint64_t>(
        runs.size(), command.first + std::max<std::uint64_t>(command.runs, 1));
    for (std::uint64_t i = command.first; i < end; ++i) {
        std::printf("run %llu: %s\n", static_cast<unsigned long long>(i), runs[i].text().c_str());
        if (!simulate_traced(i, with_fault(command, runs[i]))) failed = true;
    }
    return failed ? exit_check_failed : 0;
}

Json summary(const std::vector<SentMessage>& messages,
             const std::vector<Run>& runs,
             const std::map<std::uint64_t, SeedResult>& results) {
    std::map<std::string, std::uint64_t> by_method;
    for (const SentMessage& message : messages) ++by_method[message.method];
    std::map<std::string, double> gap;
    std::uint64_t violations = 0;
    std::uint64_t commits = 0;
    for (const auto& [number, result] : results) {
        double& worst = gap[runs.at(number).name()];
        worst = std::max(worst, result.gap);
        commits += result.commits;
        if (!result.violations.empty()) ++violations;
    }
    return {{"messages", messages.size()},
            {"methods", by_method},
            {"runs", results.size()},
            {"violations", violations},
            {"commits", commits},
            {"step_gap_max_s", gap}};
}

void print(const Json& json) {
    std::printf("%llu messages of one step, %llu runs, %llu commits: %llu failed\n",
                json["messages"].get<unsigned long long>(),
                json["runs"].get<unsigned long long>(),
                json["commits"].get<unsigned long long>(),
                json["violations"].get<unsigned long long>());
    std::printf("\n%-24s %s\n", "fault", "longest time between two steps");
    for (const auto& [name, seconds] : json["step_gap_max_s"].items())
        std::printf("%-24s %.1f s\n", name.c_str(), seconds.get<double>());
}

}  // namespace

int run_enumerate(const EnumerateCommand& command) {
    if (!command.trace) base::set_log_level(LogLevel::error);
    const std::vector<SentMessage> messages = messages_of_step(command);
    if (messages.empty()) {
        std::fprintf(stderr,
                     "dedloc: without faults there is no step %llu with such messages\n",
                     static_cast<unsigned long long>(command.step));
        return exit_bad_input;
    }
    const std::vector<Run> runs = runs_for(messages);
    if (command.first >= runs.size()) {
        std::fprintf(stderr, "dedloc: there are runs 0 to %zu\n", runs.size() - 1);
        return exit_bad_input;
    }
    if (command.trace) return run_traced(command, runs);
    SeedPoolOptions options;
    options.first = command.first;
    options.count = runs.size() - command.first;
    if (command.runs > 0) options.count = std::min(options.count, command.runs);
    options.workers = command.workers;
    options.what = "run";
    options.again = [&](std::uint64_t number) {
        return fmt::format(
            "dedloc lab enumerate --peers {} --seed {} --step {}{} --first {} --runs 1 --trace  # "
            "{}",
            command.peers,
            command.seed,
            command.step,
            command.method.empty() ? "" : " --method " + command.method,
            number,
            runs[number].text());
    };
    SeedPool pool(std::move(options), [&](std::uint64_t number) {
        return simulate(with_fault(command, runs[number]));
    });
    (void)pool.load_resumed();
    pool.run();
    const Json json = summary(messages, runs, pool.results());
    if (command.json)
        std::printf("%s\n", monitor::json_line(json).c_str());
    else
        print(json);
    return json["violations"] == 0 ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
