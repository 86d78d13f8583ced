#include "tests/netns/nat_matrix.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/netns/nat_peer.h"
#include "tests/netns/nat_topology.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;
constexpr int exit_interrupted = 130;
constexpr double first_byte_ms_max = 3000;
constexpr double ready_seconds_max = 15;
constexpr double settle_seconds_max = 25;
constexpr std::size_t probe_bytes = 256 << 10;
constexpr std::uint32_t pump_calls = 200;
constexpr std::size_t pump_bytes = 20'000;
constexpr double pump_seconds_max = 60;

constexpr NatKind kinds[] = {
    NatKind::none, NatKind::full_cone, NatKind::port_restricted, NatKind::symmetric, NatKind::same};

std::string short_name(NatKind kind) {
    switch (kind) {
        case NatKind::none:
            return "public";
        case NatKind::full_cone:
            return "full";
        case NatKind::port_restricted:
            return "restricted";
        case NatKind::symmetric:
            return "symmetric";
        case NatKind::same:
            return "same";
    }
    return "?";
}

struct Cell {
    NatKind a = NatKind::none;
    NatKind b = NatKind::none;
    std::string name() const { return short_name(a) + ":" + short_name(b); }
};

// As seen by a, who dials.
std::string expected_path(const Cell& cell) {
    const auto is_open = [](NatKind kind) {
        return kind == NatKind::none || kind == NatKind::full_cone;
    };
    const bool share = cell.a == NatKind::same || cell.b == NatKind::same;
    if (share || is_open(cell.a) || is_open(cell.b)) return "direct";
    const bool cones = cell.a == NatKind::port_restricted && cell.b == NatKind::port_restricted;
    return cones ? "punched" : "relayed";
}

struct CellResult {
    Cell cell;
    std::string path;
    double first_byte_ms = 0;
    std::uint64_t relay_bytes_after = 0;  // of probe_bytes there and back, on a path without relay
    std::string failure;                  // empty: passed
};

// Ctrl-C: what waits gives up, so that the namespaces are removed in order.
volatile std::sig_atomic_t interrupted = 0;

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

bool poll(double seconds, const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
        if (interrupted != 0 || std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
}

// The processes of one cell.
class Bed {
  public:
    static Result<std::unique_ptr<Bed>> make(const Cell& cell,
                                             const NatCommand& command,
                                             const std::string& folder) {
        auto bed = std::make_unique<Bed>();
        TopologyOptions options;
        options.a = cell.a;
        options.b = cell.b;
        options.delay = from_seconds(command.delay_ms / 1e3 / 2);
        DEDLOC_TRY(bed->topology_, NatTopology::make(options));
        const NatTopology& net = *bed->topology_;
        for (int i = 1; i <= options.public_machines; ++i) {
            const std::string name = fmt::format("r{}", i);
            DEDLOC_TRY(auto relay, NatPeer::start(net.machine(i), folder, name, command.log));
            bed->relays.push_back(std::move(relay));
        }
        DEDLOC_TRY(bed->a, NatPeer::start(net.host('a'), folder, "a", command.log));
        DEDLOC_TRY(bed->b, NatPeer::start(net.host('b'), folder, "b", command.log));
        for (std::size_t i = 0; i < bed->relays.size(); ++i) {
            DEDLOC_TRY_VOID(bed->relays[i]->ready());
            bed->relay_addresses_.push_back(
                fmt::format("/ip4/{}/tcp/4001/p2p/{}",
                            NatTopology::machine_ip(static_cast<int>(i) + 1),
                            bed->relays[i]->id()));
        }
        DEDLOC_TRY_VOID(bed->a->ready());
        DEDLOC_TRY_VOID(bed->b->ready());
        for (NatPeer* host : {bed->a.get(), bed->b.get()})
            for (const std::string& relay : bed->relay_addresses_)
                DEDLOC_TRY_VOID(host->ask({{"do", "dial"}, {"address", relay}}));
        return bed;
    }

    // Waits for what a machine of that kind ends up with by itself.
    Ok wait_until_ready(NatPeer& host, NatKind kind) const {
        nlohmann::json last;
        const bool ready = poll(ready_seconds_max, [&] {
            const auto report = host.ask({{"do", "report"}});
            if (!report) return false;
            last = *report;
            if (kind == NatKind::none || kind == NatKind::full_cone)
                return last["reachability"] == "public";
            return last["relays"].size() == relays.size();
        });
        if (ready) return {};
        return make_error(
            ErrorKind::timeout, "a machine did not become reachable: {}", monitor::json_line(last));
    }

    std::uint64_t relay_bytes() const { return sum("relay_bytes"); }
    std::uint64_t circuits() const { return sum("circuits"); }

    std::vector<std::unique_ptr<NatPeer>> relays;
    std::unique_ptr<NatPeer> a;
    std::unique_ptr<NatPeer> b;

  private:
    std::uint64_t sum(const char* field) const {
        std::uint64_t total = 0;
        for (const auto& relay : relays)
            if (const auto report = relay->ask({{"do", "report"}}))
                total += report->value(field, std::uint64_t{0});
        return total;
    }

    std::unique_ptr<NatTopology> topology_;
    std::vector<std::string> relay_addresses_;
};

// The kind of NAT that really is in front of a host.
NatKind effective(NatKind own, NatKind others) {
    if (own != NatKind::same) return own;
    return others == NatKind::same ? NatKind::port_restricted : others;
}

Ok get_ready(Bed& bed, const Cell& cell) {
    const bool share = cell.a == NatKind::same || cell.b == NatKind::same;
    const NatKind a = effective(cell.a, cell.b);
    const NatKind b = effective(cell.b, cell.a);
    // The second machine behind a full cone has no port forwarded; nobody knows which it is.
    if (!(share && a == NatKind::full_cone)) {
        DEDLOC_TRY_VOID(bed.wait_until_ready(*bed.a, a));
        DEDLOC_TRY_VOID(bed.wait_until_ready(*bed.b, b));
    }
    DEDLOC_TRY(const nlohmann::json report, bed.b->ask({{"do", "report"}}));
    DEDLOC_TRY_VOID(
        bed.a->ask({{"do", "know"}, {"peer", bed.b->id()}, {"addresses", report["addresses"]}}));
    return {};
}

// Until nobody is punching and, if there is to be a better path, it is there.
Result<std::string> settled_path(Bed& bed, const std::string& expected) {
    std::string path;
    poll(settle_seconds_max, [&] {
        const auto from_a = bed.a->ask({{"do", "path"}, {"peer", bed.b->id()}});
        const auto from_b = bed.b->ask({{"do", "path"}, {"peer", bed.a->id()}});
        const auto report = bed.b->ask({{"do", "report"}});
        if (!from_a || !from_b || !report) return false;
        path = from_a->value("path", "");
        // A relayed connection is what remains after the tries to make it direct.
        const bool tried = expected != "relayed" || report->value("punches_tried", 0) > 0;
        return tried && !from_b->value("punching", false) && path == expected;
    });
    if (path.empty()) return make_error(ErrorKind::timeout, "the machines do not answer");
    return path;
}

Ok try_cell(const NatCommand& command, const std::string& folder, CellResult& result) {
    const Cell& cell = result.cell;
    DEDLOC_TRY(auto bed, Bed::make(cell, command, folder));
    DEDLOC_TRY_VOID(get_ready(*bed, cell));
    DEDLOC_TRY(const nlohmann::json first,
               bed->a->ask({{"do", "call"}, {"peer", bed->b->id()}, {"bytes", 1}}));
    result.first_byte_ms = first.value("ms", 0.0);
    const std::string expected = expected_path(cell);
    DEDLOC_TRY(result.path, settled_path(*bed, expected));
    if (result.first_byte_ms > first_byte_ms_max)
        return make_error(ErrorKind::timeout, "the first byte took {} ms", result.first_byte_ms);
    if (result.path != expected)
        return make_error(
            ErrorKind::conflict, "the path is {}, expected {}", result.path, expected);
    const nlohmann::json probe = {{"do", "call"}, {"peer", bed->b->id()}, {"bytes", probe_bytes}};
    if (expected == "relayed") {
        DEDLOC_TRY_VOID(bed->a->ask(probe));
        return {};
    }
    if (!poll(ready_seconds_max, [&] { return bed->circuits() == 0; }))
        return make_error(ErrorKind::timeout, "the relayed connection was not given up");
    const std::uint64_t before = bed->relay_bytes();
    DEDLOC_TRY_VOID(bed->a->ask(probe));
    result.relay_bytes_after = bed->relay_bytes() - before;
    if (result.relay_bytes_after > 0)
        return make_error(ErrorKind::conflict,
                          "{} bytes went over a relay although there was a direct path",
                          result.relay_bytes_after);
    return {};
}

struct KillResult {
    double longest_gap_s = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t repeats = 0;
    std::string failure;
};

// The one of the relays that carries the circuit.
NatPeer* relay_in_use(Bed& bed) {
    for (const auto& relay : bed.relays) {
        const auto report = relay->ask({{"do", "report"}});
        if (report && report->value("circuits", 0) > 0) return relay.get();
    }
    return nullptr;
}

Ok try_kill(const NatCommand& command, const std::string& folder, KillResult& result) {
    const Cell cell{.a = NatKind::symmetric, .b = NatKind::symmetric};
    DEDLOC_TRY(auto bed, Bed::make(cell, command, folder));
    DEDLOC_TRY_VOID(get_ready(*bed, cell));
    DEDLOC_TRY_VOID(bed->a->ask(
        {{"do", "pump"}, {"peer", bed->b->id()}, {"calls", pump_calls}, {"bytes", pump_bytes}}));
    nlohmann::json state;
    const auto pumped = [&](const std::function<bool()>& enough) {
        return poll(pump_seconds_max, [&] {
            const auto now = bed->a->ask({{"do", "pumped"}});
            if (now) state = *now;
            return now && enough();
        });
    };
    if (!pumped([&] { return state.value("done", 0u) > pump_calls / 4; }))
        return make_error(
            ErrorKind::timeout, "the transfer did not begin: {}", monitor::json_line(state));
    NatPeer* victim = relay_in_use(*bed);
    if (victim == nullptr) return make_error(ErrorKind::conflict, "no relay carries the transfer");
    victim->kill();
    const bool finished = pumped([&] { return !state.value("running", true); });
    DEDLOC_TRY(const nlohmann::json received, bed->b->ask({{"do", "received"}}));
    result.longest_gap_s = state.value("longest_gap_s", 0.0);
    result.repeats = state.value("repeats", std::uint64_t{0});
    result.sent = state.value("done", std::uint64_t{0});
    result.received = received.value("numbers", std::uint64_t{0});
    if (!finished)
        return make_error(
            ErrorKind::timeout, "the transfer did not go on: {}", monitor::json_line(state));
    if (result.repeats == 0)
        return make_error(ErrorKind::conflict, "the transfer did not notice the relay's death");
    if (result.received != pump_calls)
        return make_error(
            ErrorKind::conflict, "{} of {} messages arrived", result.received, pump_calls);
    return {};
}

std::optional<NatKind> kind_named(const std::string& name) {
    for (const NatKind kind : kinds)
        if (short_name(kind) == name) return kind;
    return std::nullopt;
}

Result<std::vector<Cell>> chosen_cells(const NatCommand& command) {
    std::vector<Cell> cells;
    for (const std::string& text : command.cells) {
        const auto colon = text.find(':');
        const auto a = kind_named(text.substr(0, colon));
        const auto b = kind_named(colon == std::string::npos ? "" : text.substr(colon + 1));
        if (!a || !b)
            return make_error(ErrorKind::bad_input,
                              "\"{}\" is no cell; write KIND:KIND of public, full, restricted, "
                              "symmetric, same",
                              text);
        cells.push_back({*a, *b});
    }
    if (!cells.empty()) return cells;
    for (const NatKind a : kinds)
        for (const NatKind b : kinds) cells.push_back({a, b});
    return cells;
}

struct Total {
    std::vector<CellResult> cells;
    std::optional<KillResult> kill;
    std::size_t failures() const {
        const auto failed = std::ranges::count_if(
            cells, [](const CellResult& cell) { return !cell.failure.empty(); });
        return static_cast<std::size_t>(failed) + (kill && !kill->failure.empty() ? 1 : 0);
    }
};

nlohmann::ordered_json to_json(const Total& total) {
    nlohmann::ordered_json table = nlohmann::ordered_json::array();
    double first_byte_ms = 0;
    std::uint64_t relay_bytes = 0;
    for (const CellResult& cell : total.cells) {
        nlohmann::ordered_json row{{"a", to_string(cell.cell.a)},
                                   {"b", to_string(cell.cell.b)},
                                   {"path", cell.path},
                                   {"first_byte_ms", cell.first_byte_ms}};
        if (!cell.failure.empty()) row["failure"] = cell.failure;
        table.push_back(std::move(row));
        first_byte_ms = std::max(first_byte_ms, cell.first_byte_ms);
        relay_bytes += cell.relay_bytes_after;
    }
    nlohmann::ordered_json all{{"cells", total.cells.size()},
                               {"failures", total.failures()},
                               {"skipped", 0},
                               {"first_byte_ms_max", first_byte_ms},
                               {"relay_bytes_after_punch", relay_bytes}};
    if (total.kill) {
        const KillResult& kill = *total.kill;
        all["relay_killed"] = {{"messages", kill.received},
                               {"lost", pump_calls - kill.received},
                               {"longest_gap_s", kill.longest_gap_s}};
        if (!kill.failure.empty()) all["relay_killed"]["failure"] = kill.failure;
    }
    all["table"] = std::move(table);
    return all;
}

void say(const NatCommand& command, const std::string& line) {
    std::FILE* out = command.json ? stderr : stdout;
    fmt::print(out, "{}\n", line);
    std::fflush(out);
}

Total run_all(const NatCommand& command,
              const std::vector<Cell>& cells,
              const std::string& folder) {
    Total total;
    const auto folder_of = [&](const std::string& name) {
        const std::string path = folder + "/" + name;
        fs::create_directories(path);
        return path;
    };
    for (const Cell& cell : cells) {
        if (interrupted != 0) break;
        CellResult result{.cell = cell, .path = {}, .failure = {}};
        if (const Ok tried = try_cell(command, folder_of(cell.name()), result); !tried)
            result.failure = tried.error().message();
        say(command,
            fmt::format("{:<20} to {:<20} {:<8} first byte {:4.0f} ms  {}",
                        to_string(cell.a),
                        to_string(cell.b),
                        result.path,
                        result.first_byte_ms,
                        result.failure.empty() ? "ok" : "FAILED: " + result.failure));
        total.cells.push_back(std::move(result));
    }
    if (command.no_kill || interrupted != 0) return total;
    total.kill.emplace();
    if (const Ok tried = try_kill(command, folder_of("kill"), *total.kill); !tried)
        total.kill->failure = tried.error().message();
    say(command,
        fmt::format("relay killed in mid-transfer: {} of {} messages, longest gap {:.2f} s  {}",
                    total.kill->received,
                    pump_calls,
                    total.kill->longest_gap_s,
                    total.kill->failure.empty() ? "ok" : "FAILED: " + total.kill->failure));
    return total;
}

}  // namespace

int run_nat(const NatCommand& command) {
    const auto cells = chosen_cells(command);
    if (!cells) {
        fmt::print(stderr, "dedloc: {}\n", cells.error().message());
        return exit_bad_input;
    }
    if (const std::string why = NatTopology::why_not(); !why.empty()) {
        say(command, "skipped: " + why);
        const nlohmann::ordered_json all{
            {"cells", 0}, {"failures", 0}, {"skipped", cells->size()}, {"why", why}};
        if (command.json) fmt::print("{}\n", monitor::json_line(all));
        return exit_skipped;
    }
    std::string folder = command.directory;
    if (folder.empty()) {
        folder = (fs::temp_directory_path() / "dedloc-nat-XXXXXX").string();
        if (::mkdtemp(folder.data()) == nullptr) return exit_bad_input;
    }
    catch_interrupts();
    const Total total = run_all(command, *cells, folder);
    std::error_code ignored;
    if (command.directory.empty() && total.failures() == 0) fs::remove_all(folder, ignored);
    if (total.failures() > 0) say(command, "what the processes said is in " + folder);
    if (command.json) fmt::print("{}\n", monitor::json_line(to_json(total)));
    if (interrupted != 0) return exit_interrupted;
    return total.failures() == 0 ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
