#include "tests/sim/enumerate_command.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/sim/seed_pool.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration just_after = 1us;   // a message has been handled
constexpr Duration fault_length = 8s;  // of freezes, slow lines and cuts; a dead one is back then
constexpr Duration settle = 12s;       // after the fault
constexpr double slow_seconds = 1.0;   // more, one way
constexpr Duration catching_up = 4s;   // after a fault's end: messages of that are looked at, too
constexpr std::size_t trainers_min = 2;
constexpr std::size_t told_max = 10;  // runs that were too slow, in the JSON
constexpr sim::FaultKind enumerated_kinds[] = {sim::FaultKind::kill,
                                               sim::FaultKind::freeze,
                                               sim::FaultKind::latency,
                                               sim::FaultKind::partition};
constexpr std::size_t faults_count =
    2 * std::size(enumerated_kinds);  // of the sender, of the receiver

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
    options.delayed = command.delayed;
    options.codec = codec::codec_from_string(command.codec).value();
    if (command.group_max > 0) options.group_max = command.group_max;
    options.aggregators = command.aggregators;
    options.tortures = 0;
    options.script = sim::FaultScript{};
    options.faults_for = 30s;
    options.liveness_within = 30s;
    return options;
}

std::vector<SentMessage> messages_of(SimulationOptions options, SimulationResult& result) {
    std::vector<SentMessage> all;
    options.messages =
        [&all](TimePoint at, std::size_t from, std::size_t to, const std::string& method) {
            all.push_back({at, from, to, method});
        };
    result = simulate(options);
    return all;
}

// The messages between two commits of a run in which nothing goes wrong.
std::vector<SentMessage> messages_of_step(const EnumerateCommand& command,
                                          SimulationResult& result) {
    std::vector<SentMessage> all = messages_of(calm(command), result);
    if (result.failed() || result.commit_times_s.size() <= command.step) return {};
    const double begin = result.commit_times_s[command.step - 1];
    const double end = result.commit_times_s[command.step];
    std::erase_if(all, [&](const SentMessage& message) {
        const double at = to_seconds(message.at.since_start);
        return at < begin || at > end;
    });
    return all;
}

Run fault_at(const SentMessage& message, std::size_t number) {
    return {message, enumerated_kinds[number / 2], number % 2 == 0 ? Whom::sender : Whom::receiver};
}

std::vector<Run> runs_for(const std::vector<SentMessage>& messages, const std::string& method) {
    std::vector<Run> runs;
    for (const SentMessage& message : messages) {
        if (message.method.find(method) == std::string::npos) continue;
        for (std::size_t i = 0; i < faults_count; ++i) runs.push_back(fault_at(message, i));
    }
    return runs;
}

sim::Fault fault_of(const EnumerateCommand& command, const Run& run) {
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
    return fault;
}

// In order of time.
SimulationOptions with_faults(const EnumerateCommand& command, std::span<const Run> runs) {
    SimulationOptions options = calm(command);
    sim::FaultScript script;
    for (const Run& run : runs) script.faults.push_back(fault_of(command, run));
    options.faults_for = script.faults.back().at + fault_length + settle;
    script.quiet_after = options.faults_for;
    options.script = std::move(script);
    return options;
}

// Without a majority there is no step until the first of the victims is back. Aggregators do not
// vote.
double gap_allowed_s(const EnumerateCommand& command, std::span<const Run> runs) {
    const std::size_t trainers = command.peers - command.aggregators;
    std::set<std::size_t> victims;
    for (const Run& run : runs)
        if (run.victim() < trainers) victims.insert(run.victim());
    const bool majority = trainers - victims.size() >= consensus::majority(trainers);
    const double outage =
        majority ? 0 : static_cast<double>(runs.size()) * to_seconds(fault_length);
    return command.gap_max_s + outage;
}

// Empty: the steps came soon enough.
std::string too_slow(const EnumerateCommand& command,
                     std::span<const Run> runs,
                     const SimulationResult& result) {
    const double allowed = gap_allowed_s(command, runs);
    if (result.step_gap_max_s <= allowed) return "";
    return fmt::format("a step came {:.2f} s after the one before, {:.2f} s are allowed",
                       result.step_gap_max_s,
                       allowed);
}

// A message's path is its method; or that, and between whom.
std::string path_of(const SentMessage& message) {
    return fmt::format("{} {} {}", message.method, message.from, message.to);
}

// Messages that are not new in a history with a fault.
struct Known {
    std::set<std::string> methods;
    std::set<std::string> paths;

    explicit Known(const std::vector<SentMessage>& calm_step) {
        for (const SentMessage& message : calm_step) {
            methods.insert(message.method);
            paths.insert(path_of(message));
        }
    }
};

// Messages that only `run` brought about: new kinds first, each once before any comes twice;
// where there are more kinds than are wanted, other runs have the others.
std::vector<SentMessage> new_messages(const EnumerateCommand& command,
                                      const Known& known,
                                      std::size_t number,
                                      const Run& run,
                                      const std::vector<SentMessage>& all) {
    struct Candidate {
        bool known_kind = false;
        std::size_t times = 0;  // that this kind came before
        SentMessage message;
        auto rank() const { return std::pair(known_kind, times); }
    };
    std::vector<Candidate> candidates;
    std::map<std::string, std::size_t> times;
    const TimePoint until = run.message.at + fault_length + catching_up;
    for (const SentMessage& message : all) {
        if (message.at <= run.message.at + just_after || message.at > until) continue;
        if (known.paths.contains(path_of(message))) continue;
        candidates.push_back(
            {known.methods.contains(message.method), times[message.method]++, message});
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::rank);
    const auto kinds_end = std::ranges::find_if(candidates, [](const Candidate& one) {
        return one.rank() > std::pair(false, std::size_t{0});
    });
    const auto kinds_count = static_cast<std::size_t>(kinds_end - candidates.begin());
    if (kinds_count > command.second_max)
        std::rotate(candidates.begin(),
                    candidates.begin() +
                        static_cast<std::ptrdiff_t>(number * command.second_max % kinds_count),
                    kinds_end);
    candidates.resize(std::min(candidates.size(), command.second_max));
    std::vector<SentMessage> chosen;
    for (Candidate& one : candidates) chosen.push_back(std::move(one.message));
    return chosen;
}

std::string text_of(const std::vector<Run>& faults) {
    std::string text;
    for (const Run& run : faults) text += (text.empty() ? "" : ", then ") + run.text();
    return text;
}

// One run, and the runs with a second fault that follow from it.
class Histories {
  public:
    Histories(const EnumerateCommand& command, const std::vector<SentMessage>& calm_step)
        : command_(command), known_(calm_step), runs_(runs_for(calm_step, command.method)) {}

    const std::vector<Run>& runs() const { return runs_; }

    SeedResult of(std::size_t number) const {
        const std::vector<Run> one = {runs_[number]};
        SimulationResult simulated;
        const auto messages = messages_of(with_faults(command_, one), simulated);
        SeedResult result = seed_result(simulated);
        judge(result, one, simulated);
        for (const Run& second : seconds(number, messages)) {
            const std::vector<Run> both = {runs_[number], second};
            const SimulationResult again = simulate(with_faults(command_, both));
            ++result.histories;
            ++result.methods[second.message.method];
            result.commits += again.commits;
            result.gap_second = std::max(result.gap_second, again.step_gap_max_s);
            for (const std::string& violation : again.violations)
                result.violations.push_back(violation + ", with then a " + second.text());
            judge(result, both, again);
        }
        return result;
    }

    // Whether it held.
    bool trace(std::size_t number) const {
        const std::vector<Run> faults = {runs_[number]};
        bool held = trace(number, faults);
        if (!command_.after_fault) return held;
        SimulationResult simulated;
        const auto messages = messages_of(with_faults(command_, faults), simulated);
        for (const Run& second : seconds(number, messages)) {
            const std::vector<Run> both = {runs_[number], second};
            if (!trace(number, both)) held = false;
        }
        return held;
    }

  private:
    std::vector<Run> seconds(std::size_t number, const std::vector<SentMessage>& messages) const {
        std::vector<Run> seconds;
        if (!command_.after_fault) return seconds;
        for (const SentMessage& message :
             new_messages(command_, known_, number, runs_[number], messages)) {
            // So that every first fault meets every second one.
            const std::size_t fault = number / faults_count + number + 3 * seconds.size();
            seconds.push_back(fault_at(message, fault % faults_count));
        }
        return seconds;
    }

    void judge(SeedResult& result,
               const std::vector<Run>& faults,
               const SimulationResult& simulated) const {
        const std::string slow = too_slow(command_, faults, simulated);
        if (slow.empty()) return;
        ++result.too_slow;
        result.violations.push_back(slow + ": " + text_of(faults));
    }

    bool trace(std::size_t number, const std::vector<Run>& faults) const {
        std::printf("run %zu: %s\n", number, text_of(faults).c_str());
        const SimulationResult result =
            simulate_traced(number, with_faults(command_, faults), command_.messages);
        const std::string slow = too_slow(command_, faults, result);
        if (!slow.empty()) std::printf("TOO SLOW %s\n", slow.c_str());
        return !result.failed() && slow.empty();
    }

    const EnumerateCommand& command_;
    Known known_;
    std::vector<Run> runs_;
};

int run_traced(const EnumerateCommand& command, const Histories& histories) {
    bool failed = false;
    const std::uint64_t end = std::min<std::uint64_t>(
        histories.runs().size(), command.first + std::max<std::uint64_t>(command.runs, 1));
    for (std::uint64_t i = command.first; i < end; ++i)
        if (!histories.trace(i)) failed = true;
    return failed ? exit_check_failed : 0;
}

Json summary(const EnumerateCommand& command,
             const std::vector<Run>& runs,
             const std::map<std::uint64_t, SeedResult>& results) {
    std::map<std::string, std::uint64_t> by_method;
    for (std::size_t i = 0; i < runs.size(); i += faults_count) ++by_method[runs[i].message.method];
    std::map<std::string, double> gap;
    std::vector<std::string> slow;
    SeedResult sum;
    sum.histories = 0;
    std::uint64_t violations = 0;
    for (const auto& [number, result] : results) {
        double& worst = gap[runs.at(number).name()];
        worst = std::max(worst, result.gap);
        sum.gap_second = std::max(sum.gap_second, result.gap_second);
        sum.commits += result.commits;
        sum.averages_of_grids += result.averages_of_grids;
        sum.parts_of_aggregators += result.parts_of_aggregators;
        sum.samples_ahead += result.samples_ahead;
        sum.histories += result.histories;
        sum.too_slow += result.too_slow;
        for (const auto& [method, count] : result.methods) sum.methods[method] += count;
        if (result.failed()) ++violations;
        if (result.too_slow > 0 && slow.size() < told_max)
            slow.push_back(fmt::format("run {}: {}", number, result.violations.back()));
    }
    Json json = {{"messages", runs.size() / faults_count},
                 {"methods", by_method},
                 {"runs", results.size()},
                 {"histories", sum.histories},
                 {"violations", violations},
                 {"too_slow", sum.too_slow},
                 {"slow", slow},
                 {"commits", sum.commits},
                 {"averages_of_grids", sum.averages_of_grids},
                 {"parts_of_aggregators", sum.parts_of_aggregators},
                 {"samples_ahead", sum.samples_ahead},
                 {"gap_max_s", command.gap_max_s},
                 {"step_gap_max_s", gap}};
    if (!command.after_fault) return json;
    json["second_methods"] = sum.methods;
    json["second_step_gap_max_s"] = sum.gap_second;
    return json;
}

void print(const Json& json) {
    fmt::print("{} messages of one step, {} runs, {} histories, {} commits: {} runs failed\n",
               json["messages"].get<std::uint64_t>(),
               json["runs"].get<std::uint64_t>(),
               json["histories"].get<std::uint64_t>(),
               json["commits"].get<std::uint64_t>(),
               json["violations"].get<std::uint64_t>());
    std::printf("\n%-24s %s\n", "fault", "longest time between two steps");
    for (const auto& [name, seconds] : json["step_gap_max_s"].items())
        std::printf("%-24s %.1f s\n", name.c_str(), seconds.get<double>());
    if (!json.contains("second_methods")) return;
    std::printf("\n%-36s second faults; longest time between two steps: %.1f s\n",
                "at a message of",
                json["second_step_gap_max_s"].get<double>());
    for (const auto& [method, count] : json["second_methods"].items())
        fmt::print("{:36} {}\n", method, count.get<std::uint64_t>());
}

// Words of a command that decide which runs there are.
std::string words_of(const EnumerateCommand& command) {
    std::string words =
        fmt::format("--peers {} --seed {} --step {}", command.peers, command.seed, command.step);
    if (command.group_max > 0) words += fmt::format(" --group-max {}", command.group_max);
    if (command.aggregators > 0) words += fmt::format(" --aggregators {}", command.aggregators);
    if (command.delayed) words += " --delayed";
    if (command.codec != EnumerateCommand{}.codec) words += " --codec " + command.codec;
    if (!command.method.empty()) words += " --method " + command.method;
    if (command.after_fault)
        words += fmt::format(" --after-fault --second-max {}", command.second_max);
    return words;
}

SeedPoolOptions pool_options(const EnumerateCommand& command, const std::vector<Run>& runs) {
    SeedPoolOptions options;
    options.first = command.first;
    options.count = runs.size() - command.first;
    if (command.runs > 0) options.count = std::min(options.count, command.runs);
    options.workers = command.workers;
    options.what = "run";
    options.again = [&](std::uint64_t number) {
        return fmt::format("dedloc-lab enumerate {} --first {} --runs 1 --trace  # {}",
                           words_of(command),
                           number,
                           runs[number].text());
    };
    return options;
}

}  // namespace

int run_enumerate(const EnumerateCommand& command) {
    if (!command.trace) base::set_log_level(LogLevel::error);
    if (command.peers < command.aggregators + trainers_min) {
        std::fprintf(stderr, "dedloc: of --peers at least two must train\n");
        return exit_bad_input;
    }
    SimulationResult calm_run;
    const Histories histories(command, messages_of_step(command, calm_run));
    const std::vector<Run>& runs = histories.runs();
    if (calm_run.failed()) {
        std::fprintf(stderr, "dedloc: without faults: %s\n", calm_run.violations.front().c_str());
        return exit_check_failed;
    }
    if (runs.empty()) {
        std::fprintf(stderr,
                     "dedloc: without faults there is no step %llu with such messages\n",
                     static_cast<unsigned long long>(command.step));
        return exit_bad_input;
    }
    if (command.first >= runs.size()) {
        std::fprintf(stderr, "dedloc: there are runs 0 to %zu\n", runs.size() - 1);
        return exit_bad_input;
    }
    if (command.trace) return run_traced(command, histories);
    SeedPool pool(pool_options(command, runs),
                  [&](std::uint64_t number) { return histories.of(number); });
    const Ok ran = pool.run();
    const Json json = summary(command, runs, pool.results());
    if (command.json)
        std::printf("%s\n", monitor::json_line(json).c_str());
    else
        print(json);
    if (!ran) {
        std::fprintf(stderr, "dedloc: %s\n", ran.error().message().c_str());
        return 1;
    }
    return json["violations"] == 0 ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
