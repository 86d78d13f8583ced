#include "tests/netns/links.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "dedloc/codec/codec.h"
#include "dedloc/measure/median.h"
#include "dedloc/measure/notes.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/real.h"

#include "tests/common/exit_codes.h"
#include "tests/netns/link_topology.h"
#include "tests/netns/namespaces.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double plan_seconds_max = 60;
constexpr double meet_seconds_max = 120;
constexpr double round_seconds_max = 600;
constexpr std::uint64_t elements_far_apart = 256;  // 1 KiB of fp32
constexpr double vector_share_min = 1.0 / 8;
// A round's plan, proposals and certificates are as long as in reality, on lines that are slower.
constexpr double round_seconds_wanted = 30;
// At a setup's own rates: a link that is slower holds the same bytes for longer.
constexpr double queue_seconds = 0.01;
constexpr double usual_ratio_max = 1.15;
constexpr double usual_speedup_min_of_c = 1.85;
constexpr double included_min = 0.999;  // of all contributions
// By all peers together, without the processors being the limit.
constexpr double sent_bytes_per_s_max = 160e6 / 8;
constexpr auto poll_interval = std::chrono::milliseconds(20);

// The lines, and what the planner says of them.
struct Network {
    std::vector<LinkLine> lines;  // trainers', then aggregators'
    std::size_t aggregators = 0;
    double seconds = 0;  // planned, for the scaled vector and rates
    double seconds_equal = 0;
    double seconds_without = 0;  // aggregators
    std::uint64_t elements = 0;
    double slowest = 0;  // bytes per second
    double slower = 1;   // than the setup's rates
};

struct RoundSeen {
    double seconds = 0;
    double included = 1;  // of all contributions
    std::size_t owners = 0;
    std::size_t parts = 0;
    double rmse = 0;
    // Each trainer's belief about its uplink afterwards, over what that carries.
    std::vector<double> believed;
    double believed_least() const {
        return believed.empty() ? 0 : *std::ranges::min_element(believed);
    }
    double believed_most() const {
        return believed.empty() ? 0 : *std::ranges::max_element(believed);
    }
};

Result<Json> ask_planner(const LinksCommand& command, const std::string& folder) {
    runtime::ChildOptions options;
    options.command = {command.program, "plan", "--setup", command.setup, "--json"};
    options.output_file = folder + "/plan";
    options.error_file = folder + "/plan-errors";
    DEDLOC_TRY(auto child, runtime::ChildProcess::start(options));
    (void)child.wait_for(plan_seconds_max);
    const std::string text = measure::read_note(folder, "plan").value_or("");
    const auto line = text.substr(0, text.find_last_not_of('\n') + 1);
    const Json plan = Json::parse(line.substr(line.rfind('\n') + 1), nullptr, false);
    if (plan.is_discarded() || !plan.value("ok", false) || !plan.contains("peers"))
        return make_error(ErrorKind::bad_input,
                          "{} plan --setup {} gives no plan: {}",
                          command.program,
                          command.setup,
                          measure::read_note(folder, "plan-errors").value_or(""));
    return plan;
}

// So much of the vector that a round takes half a minute, but an eighth at least. `stretch`: how
// much longer than planned the whole one takes.
std::uint64_t part_of_vector(const Json& plan, double stretch) {
    const auto all = plan["elements"].get<double>();
    const double seconds = plan["seconds"].get<double>() * stretch;
    const double share = seconds > 0 ? round_seconds_wanted / seconds : 1;
    return static_cast<std::uint64_t>(all * std::clamp(share, vector_share_min, 1.0));
}

// By powers of two, until what all peers send in the planned time is little enough for two cores.
// The codec does not matter: with half the bytes the planned time is half as long.
double slow_enough(const Json& plan) {
    double bytes = 0;
    for (const Json& peer : plan["peers"]) bytes += peer["sends_bytes"].get<double>();
    const double rate = bytes / plan["seconds"].get<double>();
    double slower = 1;
    while (rate / slower > sent_bytes_per_s_max) slower *= 2;
    return slower;
}

// Limits of single links make equal parts impossible; a NAT and who should not compute are not made
// here.
Ok can_be_run(const Json& plan, const std::string& setup) {
    const auto is_run = [](const Json& peer) {
        return peer["role"] == "trainer" || peer["role"] == "aggregator";
    };
    if (plan["seconds_equal"].is_number() && setup != "nat" &&
        std::ranges::all_of(plan["peers"], is_run))
        return {};
    return make_error(ErrorKind::bad_input,
                      "{} cannot be run on lines of this machine, only planned: its links have "
                      "limits of their own, somebody cannot be dialled, or should not compute. "
                      "A, B, C, D, 4-8-4 and aux can",
                      setup);
}

Result<Network> plan_network(const LinksCommand& command, const std::string& folder) {
    Network network;
    if (command.setup.empty()) {
        network.lines.resize(command.peers);
        network.elements = command.elements > 0 ? command.elements : elements_far_apart;
        return network;
    }
    DEDLOC_TRY(const Json plan, ask_planner(command, folder));
    DEDLOC_TRY_VOID(can_be_run(plan, command.setup));
    const auto all = plan["elements"].get<std::uint64_t>();
    DEDLOC_TRY(const double share, codec_share(command.codec, plan["element_bytes"].get<double>()));
    network.slower = command.slower > 0 ? command.slower : slow_enough(plan);
    const double stretch = network.slower * share;
    network.elements = command.elements > 0 ? command.elements : part_of_vector(plan, stretch);
    const double factor =
        stretch * static_cast<double>(network.elements) / static_cast<double>(all);
    network.seconds = plan["seconds"].get<double>() * factor;
    network.seconds_equal = plan["seconds_equal"].get<double>() * factor;
    network.seconds_without = plan.value("seconds_without", 0.0) * factor;
    std::vector<LinkLine> aggregators;
    for (const Json& peer : plan["peers"]) {
        LinkLine line;
        line.up_bytes_per_s = peer["up_bits_per_s"].get<double>() / 8 / network.slower;
        line.down_bytes_per_s = peer["down_bits_per_s"].get<double>() / 8 / network.slower;
        const double least = std::min(line.up_bytes_per_s, line.down_bytes_per_s);
        network.slowest = network.slowest > 0 ? std::min(network.slowest, least) : least;
        (peer["role"] == "trainer" ? network.lines : aggregators).push_back(line);
    }
    network.aggregators = aggregators.size();
    network.lines.insert(network.lines.end(), aggregators.begin(), aggregators.end());
    return network;
}

// Members are told that their links carry: nothing, all the same, or the truth.
enum class Told { nothing, equal, truth };

// The processes on the lines, and their rounds.
class Members {
  public:
    static Result<std::unique_ptr<Members>> start(const LinksCommand& command,
                                                  const Network& network,
                                                  const std::string& folder,
                                                  Told told) {
        auto members = std::unique_ptr<Members>(new Members(folder, network));
        fs::create_directories(folder);
        LinkOptions lines;
        lines.lines = network.lines;
        lines.delay = from_seconds(command.round_trip_ms / 2e3);
        lines.queue = std::max(lines.queue, from_seconds(network.slower * queue_seconds));
        DEDLOC_TRY(members->topology_, LinkTopology::make(std::move(lines)));
        for (std::size_t i = 0; i < network.lines.size(); ++i)
            DEDLOC_TRY_VOID(members->start_one(command, network, i, told));
        DEDLOC_TRY_VOID(members->wait_for("ready", meet_seconds_max));
        return members;
    }

    Result<RoundSeen> do_round() {
        const std::string name = std::to_string(rounds_++);
        measure::leave_note(folder_, "go-" + name, "");
        DEDLOC_TRY_VOID(wait_for("done-" + name, round_seconds_max));
        RoundSeen seen;
        double first = 0;
        double last = 0;
        std::set<std::string> decisions;
        for (std::size_t i = 0; i < processes_.size(); ++i) {
            const auto text = measure::read_note(folder_, fmt::format("done-{}-{}", name, i));
            const Json done = Json::parse(text.value_or(""), nullptr, false);
            if (done.is_discarded())
                return make_error(ErrorKind::local_fault, "a member's report cannot be read");
            first =
                i == 0 ? done["begin"].get<double>() : std::min(first, done.value("begin", 0.0));
            last = std::max(last, done.value("end", 0.0));
            decisions.insert(done.value("decision", ""));
            seen.included = std::min(seen.included, done.value("included", 0.0));
            seen.parts = done.value("parts", std::size_t{0});
            if (done.value("owned", 0.0) > 0) ++seen.owners;
            if (i == 0) seen.rmse = done.value("rmse", 0.0);
            check_rate(i, done.value("upload", 0.0), seen);
        }
        if (decisions.size() != 1)
            return make_error(ErrorKind::conflict, "the members have different averages");
        seen.seconds = last - first;
        return seen;
    }

    void end() {
        measure::leave_note(folder_, "go-" + std::to_string(rounds_), "end");
        for (auto& process : processes_) (void)process.wait_for(10);
    }

  private:
    Members(std::string folder, const Network& network)
        : folder_(std::move(folder)), network_(network) {}

    void check_rate(std::size_t rank, double upload, RoundSeen& seen) const {
        const double line = network_.lines[rank].up_bytes_per_s;
        if (line <= 0 || rank + network_.aggregators >= network_.lines.size()) return;
        seen.believed.push_back(upload / line);
    }

    Ok start_one(const LinksCommand& command, const Network& network, std::size_t rank, Told told) {
        LinkLine granted;
        if (told == Told::truth) granted = network.lines[rank];
        if (told == Told::equal) granted = {network.slowest, network.slowest};
        runtime::ChildOptions options;
        options.command = Namespaces::prefix(topology_->machine(rank));
        const std::vector<std::string> words = {
            this_program(),
            "link-member",
            "--rank",
            std::to_string(rank),
            "--size",
            std::to_string(network.lines.size()),
            "--aggregators",
            std::to_string(network.aggregators),
            "--elements",
            std::to_string(network.elements),
            "--codec",
            command.codec,
            "--congestion-control",
            command.congestion_control,
            "--ip",
            LinkTopology::ip(rank),
            "--folder",
            folder_,
            "--rate-unknown",
            fmt::format("{:.0f}", network.slowest > 0 ? network.slowest : 12.5e6),
            "--granted-up",
            fmt::format("{:.0f}", granted.up_bytes_per_s),
            "--granted-down",
            fmt::format("{:.0f}", granted.down_bytes_per_s)};
        options.command.insert(options.command.end(), words.begin(), words.end());
        if (told == Told::truth) options.command.push_back("--granted-is-true");
        options.output_file = fmt::format("{}/out-{}", folder_, rank);
        options.error_file = fmt::format("{}/said-{}", folder_, rank);
        DEDLOC_TRY(auto process, runtime::ChildProcess::start(options));
        processes_.push_back(std::move(process));
        return {};
    }

    Ok wait_for(const std::string& what, double seconds) {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        for (std::size_t i = 0; i < processes_.size(); ++i) {
            const fs::path note = fs::path(folder_) / fmt::format("{}-{}", what, i);
            while (!fs::exists(note)) {
                if (!processes_[i].running())
                    return make_error(
                        ErrorKind::local_fault, "member {} ended: {}", i, last_words(i));
                if (std::chrono::steady_clock::now() > until)
                    return make_error(ErrorKind::timeout,
                                      "member {} is not \"{}\" after {:.0f} s: {}",
                                      i,
                                      what,
                                      seconds,
                                      last_words(i));
                std::this_thread::sleep_for(poll_interval);
            }
        }
        return {};
    }

    std::string last_words(std::size_t rank) const {
        const std::string text =
            measure::read_note(folder_, fmt::format("said-{}", rank)).value_or("");
        return text.size() > 500 ? text.substr(text.size() - 500) : text;
    }

    std::string folder_;
    Network network_;
    std::unique_ptr<LinkTopology> topology_;
    std::vector<runtime::ChildProcess> processes_;
    int rounds_ = 0;
};

struct Measured {
    std::vector<double> seconds;
    double included = 1;  // in the worst round that counts
    RoundSeen last;
};

Result<Measured> measure(const LinksCommand& command,
                         const Network& network,
                         const std::string& folder,
                         Told told,
                         const char* what) {
    DEDLOC_TRY(auto members, Members::start(command, network, folder, told));
    Measured measured;
    const int warm_up = command.warm_up > 0 ? command.warm_up : network.aggregators > 0 ? 4 : 2;
    for (int round = 0; round < warm_up + command.rounds; ++round) {
        DEDLOC_TRY(measured.last, members->do_round());
        const bool counts = round >= warm_up;
        fmt::print(stderr,
                   "{}{} round {}: {:.3f} s, {} owners, {} parts, {:.1f} % included, uplinks "
                   "believed to be {:.2f} to {:.2f} of what they are\n",
                   what,
                   counts ? "" : " (warm-up)",
                   round + 1,
                   measured.last.seconds,
                   measured.last.owners,
                   measured.last.parts,
                   measured.last.included * 100,
                   measured.last.believed_least(),
                   measured.last.believed_most());
        if (!counts) continue;
        measured.seconds.push_back(measured.last.seconds);
        measured.included = std::min(measured.included, measured.last.included);
    }
    members->end();
    return measured;
}

// The same lines with equal parts; or, where there are any, without the aggregators (`told` as with
// them).
Ok compare(const LinksCommand& command,
           const Network& network,
           const std::string& folder,
           Told told,
           double seconds,
           Json& json) {
    if (network.aggregators > 0) {
        Network without = network;
        without.lines.resize(network.lines.size() - network.aggregators);
        without.aggregators = 0;
        DEDLOC_TRY(const Measured alone,
                   measure(command, without, folder + "/without", told, "without aggregators"));
        json["seconds_without"] = measure::median(alone.seconds);
        json["seconds_without_planned"] = network.seconds_without;
        json["speedup_of_aggregators"] = measure::median(alone.seconds) / seconds;
        json["speedup_of_aggregators_planned"] = network.seconds_without / network.seconds;
        return {};
    }
    // A member that grants the same as all others gets the same part as all others.
    LinksCommand once = command;
    once.warm_up = 1;
    once.rounds = 1;
    DEDLOC_TRY(const Measured equal,
               measure(once, network, folder + "/equal", Told::equal, "equal"));
    json["seconds_equal"] = measure::median(equal.seconds);
    json["seconds_equal_planned"] = network.seconds_equal;
    json["speedup_over_equal"] = measure::median(equal.seconds) / seconds;
    return {};
}

Result<Json> measure_all(const LinksCommand& command, const std::string& folder) {
    DEDLOC_TRY(const Network network, plan_network(command, folder));
    if (network.seconds > 0)
        fmt::print(
            stderr,
            "{}: {} peers, {:.1f} million elements, planned {:.2f} s, equal parts {:.2f} s\n",
            command.setup,
            network.lines.size(),
            static_cast<double>(network.elements) / 1e6,
            network.seconds,
            network.seconds_equal);
    const Told told = command.rates_told ? Told::truth : Told::nothing;
    DEDLOC_TRY(const Measured planned,
               measure(command, network, folder + "/planned", told, "planned"));
    const double seconds = measure::median(planned.seconds);
    Json json = {{"setup", command.setup},
                 {"peers", network.lines.size()},
                 {"elements", network.elements},
                 {"codec", command.codec},
                 {"seconds", seconds},
                 {"seconds_min", *std::min_element(planned.seconds.begin(), planned.seconds.end())},
                 {"rounds", planned.seconds.size()},
                 {"included", planned.included},
                 {"owners", planned.last.owners},
                 {"parts", planned.last.parts},
                 {"rmse", planned.last.rmse}};
    if (network.seconds <= 0) {
        json["round_trip_ms"] = command.round_trip_ms;
        return json;
    }
    json["slower"] = network.slower;
    json["seconds_planned"] = network.seconds;
    json["ratio_to_plan"] = seconds / network.seconds;
    json["uplinks_believed"] = {planned.last.believed_least(), planned.last.believed_most()};
    json["uplinks_believed_each"] = planned.last.believed;
    if (command.no_equal) return json;
    DEDLOC_TRY_VOID(compare(command, network, folder, told, seconds, json));
    return json;
}

// A bound on what this run does not measure would never be missed, or always.
Ok can_be_judged(const LinksCommand& command) {
    const bool equal = !command.setup.empty() && command.setup != "aux" && !command.no_equal;
    if (command.ratio_max && command.setup.empty())
        return make_error(ErrorKind::bad_input,
                          "--ratio-max is a bound of the planned time, which only a --setup has");
    if (command.speedup_min && !equal)
        return make_error(ErrorKind::bad_input,
                          "--speedup-min is a bound of the gain over equal parts: that takes a "
                          "--setup without aggregators, and no --no-equal");
    return {};
}

}  // namespace

Result<double> codec_share(const std::string& codec, double element_bytes) {
    constexpr std::size_t many = 1 << 20;
    DEDLOC_TRY(const codec::CodecId id, codec::codec_from_string(codec));
    const auto bytes = static_cast<double>(codec::encoded_size(id, many));
    return bytes / (static_cast<double>(many) * element_bytes);
}

std::vector<Bound> bounds_of(const LinksCommand& command, const Json& measured) {
    // A value that nobody measured is no number, and reaches no bound.
    const auto value = [&](const char* name) {
        return measured.value(name, std::numeric_limits<double>::quiet_NaN());
    };
    std::vector<Bound> bounds{at_least("included", value("included"), included_min)};
    if (command.setup.empty()) return bounds;
    const double ratio_max = command.ratio_max.value_or(usual_ratio_max);
    if (ratio_max > 0)
        bounds.push_back(at_most("ratio_to_plan", value("ratio_to_plan"), ratio_max));
    if (command.no_equal) return bounds;
    const double speedup_min =
        command.speedup_min.value_or(command.setup == "C" ? usual_speedup_min_of_c : 0);
    if (speedup_min > 0)
        bounds.push_back(at_least("speedup_over_equal", value("speedup_over_equal"), speedup_min));
    if (command.setup == "aux")
        bounds.push_back(at_least("speedup_of_aggregators",
                                  value("speedup_of_aggregators"),
                                  value("speedup_of_aggregators_planned") / usual_ratio_max));
    return bounds;
}

int run_links(const LinksCommand& given) {
    LinksCommand command = given;
    if (command.program.empty()) command.program = dedloc_program();
    if (command.setup.empty() == (command.round_trip_ms <= 0)) {
        fmt::print(stderr, "dedloc-lab links: name a --setup, or --rtt-ms without one\n");
        return exit_bad_input;
    }
    if (const Ok may = can_be_judged(command); !may) {
        fmt::print(stderr, "dedloc-lab links: {}\n", may.error().message());
        return exit_bad_input;
    }
    const std::string why = LinkTopology::why_not(command.round_trip_ms > 0);
    if (!why.empty()) {
        fmt::print(stderr, "dedloc-lab links: skipped: {}\n", why);
        if (command.json) fmt::print("{}\n", monitor::json_line(Json{{"skipped", why}}));
        return exit_skipped;
    }
    if (const Ok may = runtime::may_use_congestion_control(command.congestion_control); !may) {
        fmt::print(stderr, "dedloc-lab links: --congestion-control: {}\n", may.error().message());
        return exit_bad_input;
    }
    const auto folder = process_folder(command.directory, "links");
    if (!folder) {
        fmt::print(stderr, "dedloc-lab links: {}\n", folder.error().message());
        return 1;
    }
    const auto json = measure_all(command, *folder);
    std::error_code ignored;
    if (command.directory.empty()) fs::remove_all(*folder, ignored);
    if (!json) {
        fmt::print(stderr, "dedloc-lab links: {}\n", json.error().message());
        return json.error().kind() == ErrorKind::bad_input ? exit_bad_input : 1;
    }
    if (command.json)
        fmt::print("{}\n", monitor::json_line(*json));
    else
        for (const auto& [name, value] : json->items())
            fmt::print("{:22} {}\n", name, monitor::json_line(value));
    return all_hold("links", bounds_of(command, *json)) ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
