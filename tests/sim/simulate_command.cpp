#include "tests/sim/simulate_command.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/sim/planted.h"
#include "tests/sim/seed_pool.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;
using RealTime = std::chrono::steady_clock;

// Seeds whose trace tells one engine from another: grids, aggregators and a delayed step are among
// them. A second or two.
constexpr std::uint64_t telling_first = 500;
constexpr std::uint64_t telling_seeds = 6;

// Makes the run robust: seed after seed another lie. Nobody dies where somebody lies.
void make_robust(const SimulateCommand& command, SimulationOptions& options) {
    if (!command.robust) return;
    options.robust = true;
    if (command.light) make_light_robust(options);
    options.steady = true;
    options.delayed = false;
    options.aggregators = 0;
    options.group_max = 64;
    options.tortures = 0;
    const std::vector<LieOutcome>& lies = protocol_lies();
    options.lie = lies[options.seed % lies.size()].lie;
    for (const LieOutcome& each : lies)
        if (command.lie == each.name) options.lie = each.lie;
    if (options.lie != ProtocolLie::none) options.script.emplace();
}

bool parse_peers(const std::string& text, SimulationOptions& options) {
    const std::size_t dash = text.find('-');
    const std::string low = text.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : text.substr(dash + 1);
    const auto number = [](const std::string& digits, std::size_t& value) {
        const auto end = digits.data() + digits.size();
        return std::from_chars(digits.data(), end, value).ptr == end && !digits.empty();
    };
    return number(low, options.peers_min) && number(high, options.peers_max) &&
           options.peers_min >= 2 && options.peers_min <= options.peers_max &&
           options.peers_max <= 64;
}

int run_traced(const SimulateCommand& command, SimulationOptions options) {
    bool failed = false;
    for (std::uint64_t i = 0; i < command.seeds; ++i) {
        options.seed = command.first + i;
        if (command.light) make_light(options);
        make_robust(command, options);
        if (simulate_traced(options.seed, options, command.messages).failed()) failed = true;
    }
    return failed == command.plant.empty() ? exit_check_failed : 0;
}

std::uint64_t trace_with(std::uint64_t trace, std::uint64_t seed, std::uint64_t of_seed) {
    return base::mix64(base::mix64(trace ^ seed) ^ of_seed);
}

// The trace that `lab simulate --first-seed 500 --seeds 6` prints: results of an engine that
// prints another one are of other histories.
std::string trace_of_engine() {
    std::uint64_t trace = 0;
    SimulationOptions options;
    options.tortures = 0;  // are in no trace
    for (std::uint64_t i = 0; i < telling_seeds; ++i) {
        options.seed = telling_first + i;
        trace = trace_with(trace, options.seed, simulate(options).trace);
    }
    return fmt::format("{:016x}", trace);
}

Json summary(const SimulateCommand& command,
             const std::map<std::uint64_t, SeedResult>& results,
             double seconds) {
    SeedResult sum;
    std::uint64_t violations = 0;  // seeds, crashed ones too
    std::uint64_t crashed = 0;
    std::uint64_t first_violation = 0;
    for (const auto& [seed, result] : results) {
        if (seed < command.first || seed >= command.first + command.seeds) continue;
        sum.peers += 1;  // counts seeds
        if (result.failed() && ++violations == 1) first_violation = seed;
        if (result.crashed) ++crashed;
        for (const SeedCount& one : seed_counts) sum.*one.count += result.*one.count;
        sum.judged += result.judged;
        sum.gap = std::max(sum.gap, result.gap);
        sum.recovered = std::max(sum.recovered, result.recovered);
        sum.trace = trace_with(sum.trace, seed, result.trace);
    }
    Json json{{"seeds", sum.peers}, {"violations", violations}, {"crashed", crashed}};
    for (const SeedCount& one : seed_counts) json[one.name_of_sum] = sum.*one.count;
    json["samples_judged"] = sum.judged;
    json["step_gap_max_s"] = sum.gap;
    json["recovered_max_s"] = sum.recovered;
    json["trace"] = fmt::format("{:016x}", sum.trace);
    json["seconds"] = seconds;
    if (violations > 0) json["first_violation"] = first_violation;
    if (!command.plant.empty()) {
        json["plant"] = command.plant;
        json["found"] = violations > crashed;
    }
    return json;
}

void print(const SimulateCommand& command, const Json& json) {
    if (command.json) {
        std::printf("%s\n", monitor::json_line(json).c_str());
        return;
    }
    for (const auto& [name, value] : json.items())
        std::printf("%-18s %s\n", name.c_str(), monitor::json_line(value).c_str());
}

// A worker that crashed or hung found no planted bug: it is one that nobody planted.
bool as_wanted(const SimulateCommand& command, const Json& json) {
    if (command.plant.empty()) return json.at("violations") == 0;
    return json.at("found") == true && json.at("crashed") == 0;
}

SeedPoolOptions pool_options(const SimulateCommand& command) {
    SeedPoolOptions options;
    options.first = command.first;
    options.count = command.seeds;
    options.workers = command.workers;
    options.resume_file = command.resume_file;
    options.seed_seconds_max = command.seed_seconds_max;
    options.stop_when_found = !command.plant.empty();
    options.decides = {{"peers", command.peers},
                       {"delayed", command.delayed ? "yes" : "no"},
                       {"two-networks", command.two_networks ? "yes" : "no"},
                       {"group-max", std::to_string(command.group_max)},
                       {"codec", command.codec},
                       {"light", command.light ? "yes" : "no"},
                       {"robust", command.robust ? "yes" + command.lie : "no"},
                       {"plant", command.plant.empty() ? "nothing" : command.plant}};
    if (!command.resume_file.empty()) options.decides.emplace_back("engine", trace_of_engine());
    options.again = [&command](std::uint64_t seed) {
        return fmt::format(
            "dedloc-lab simulate --first {} --seeds 1 --peers {}{}{}{}{}{}{}{}{} --trace",
            seed,
            command.peers,
            command.delayed ? " --delayed" : "",
            command.light ? " --light" : "",
            command.robust ? " --robust" : "",
            command.lie.empty() ? "" : " --lie " + command.lie,
            command.two_networks ? " --two-networks" : "",
            command.group_max == 0 ? "" : fmt::format(" --group-max {}", command.group_max),
            command.codec == usual_codec ? "" : " --codec " + command.codec,
            command.plant.empty() ? "" : " --plant " + command.plant);
    };
    return options;
}

}  // namespace

int run_simulate(const SimulateCommand& command, const std::string&) {
    SimulationOptions options;
    if (!parse_peers(command.peers, options)) {
        std::fprintf(stderr, "dedloc: --peers wants a number or a range like 5-20, 2 to 64\n");
        return exit_bad_input;
    }
    if (!command.plant.empty()) {
        const auto bugs = planted_bug(command.plant);
        if (!bugs) {
            std::fprintf(
                stderr, "dedloc: there is no bug '%s' to plant; there are:", command.plant.c_str());
            for (const std::string& name : planted_names())
                std::fprintf(stderr, " %s", name.c_str());
            std::fputs("\n", stderr);
            return exit_bad_input;
        }
        options.bugs = *bugs;
    }
    if (command.delayed) options.delayed = true;
    options.two_networks = command.two_networks;
    if (command.group_max > 0) options.group_max = command.group_max;
    options.codec = codec::codec_from_string(command.codec).value();
    if (!command.trace) base::set_log_level(LogLevel::error);
    if (command.trace) return run_traced(command, options);
    const auto begun = RealTime::now();
    SeedPool pool(pool_options(command), [&options, &command](std::uint64_t seed) {
        SimulationOptions one = options;
        one.seed = seed;
        if (command.light) make_light(one);
        make_robust(command, one);
        return seed_result(simulate(one));
    });
    if (const Ok loaded = pool.load_resumed(); !loaded) {
        std::fprintf(stderr, "dedloc: %s\n", loaded.error().message().c_str());
        return exit_bad_input;
    }
    const Ok ran = pool.run();
    const double seconds = std::chrono::duration<double>(RealTime::now() - begun).count();
    const Json json = summary(command, pool.results(), seconds);
    print(command, json);
    if (!ran) {
        std::fprintf(stderr, "dedloc: %s\n", ran.error().message().c_str());
        return 1;
    }
    return as_wanted(command, json) ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
