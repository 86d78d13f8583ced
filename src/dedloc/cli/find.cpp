// dedloc find: runs of a name, as hosts and relays know them.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/base/printable.h"
#include "dedloc/cli/commands.h"
#include "dedloc/collab/run_names.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {
namespace {

constexpr double table_timeout_s = 20;
constexpr Duration find_timeout = 20s;

// A join string, or an address as `dedloc relay` prints it.
Result<std::vector<std::string>> ways_in(const std::string& at) {
    if (at.starts_with("/")) {
        DEDLOC_TRY_VOID(run::split_peer_address(at));
        return std::vector<std::string>{at};
    }
    DEDLOC_TRY(const auto join, run::parse_join_string(at));
    return join.addresses;
}

Result<void> enter_table(collab::Node& node, const std::vector<std::string>& addresses) {
    Result<void> reached = make_error(ErrorKind::bad_input, "no address to ask at");
    for (const std::string& address : addresses) {
        const TimePoint deadline = node.clock().now() + peer::reach_timeout;
        const auto met = node.call("dial", node.host().dial(address, deadline));
        if (met) {
            reached = Result<void>();
            break;
        }
        reached = met.error();
    }
    if (!reached) return reached;
    node.join_table();
    const double until = peer::steady_seconds() + table_timeout_s;
    while (peer::interrupts() == 0 && peer::steady_seconds() < until) {
        if (node.run_on_network_thread([&] { return node.dht()->table().size() > 0; })) return {};
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return make_error(ErrorKind::timeout,
                      "what answers there is no node of the table: relays and hosts with --listed "
                      "are");
}

// Makes a join string for an open run: its record has all that it needs.
std::string join_string_of(const collab::FoundRun& found) {
    if (!found.run.open || found.run.addresses.empty()) return {};
    return run::to_text({.run = found.run.run,
                         .secret = {},
                         .addresses = found.run.addresses,
                         .anchor = std::nullopt});
}

void print_found(const std::vector<collab::FoundRun>& runs, const std::string& name, double now) {
    for (const collab::FoundRun& found : runs) {
        peer::say(stdout,
                  "{}  by {}\n  {}, step {}, {} peers, {:.1f} h old; run {}\n",
                  base::printable(name),
                  found.organiser.text(),
                  found.run.task,
                  found.run.step,
                  found.run.peers,
                  std::max(0.0, now - found.run.begun) / 3600,
                  found.run.run.hex().substr(0, 8));
        const std::string join = join_string_of(found);
        if (join.empty())
            peer::say(stdout, "  by invitation: ask its organiser for a join string\n");
        else
            peer::say(stdout, "  open: {} join {}\n", peer::as_others_call_it(), join);
    }
}

nlohmann::ordered_json json_of_found(const std::vector<collab::FoundRun>& runs, double now) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const collab::FoundRun& found : runs)
        list.push_back({{"organiser", found.organiser.text()},
                        {"run_hash", found.run.run.hex()},
                        {"task", found.run.task},
                        {"step", found.run.step},
                        {"peers", found.run.peers},
                        {"age_s", std::max(0.0, now - found.run.begun)},
                        {"open", found.run.open},
                        {"join_string", join_string_of(found)}});
    return list;
}

}  // namespace

int run_find(const FindOptions& options) {
    peer::catch_interrupts();
    if (options.name.empty() || options.name.size() > collab::run_name_bytes_max)
        return peer::report_early(peer::Failure{peer::ExitCode::bad_input,
                                                fmt::format("a run's name has 1 to {} bytes",
                                                            collab::run_name_bytes_max)},
                                  options.json);
    const auto addresses = ways_in(options.at);
    if (!addresses) return peer::report_early(peer::failure(addresses.error()), options.json);
    peer::OpeningOptions opening{.directory = options.directory, .listen = {"none"}};
    opening.nat.map_ports = false;
    auto opened = peer::open_node(Digest(), opening);
    if (!opened) return peer::report_early(opened.failure(), options.json);
    collab::Node& node = *opened->node;
    if (const auto entered = enter_table(node, *addresses); !entered)
        return peer::report_early(peer::failure(entered.error()), options.json);
    const TimePoint deadline = node.clock().now() + find_timeout;
    const auto found =
        node.call("find runs", collab::find_runs(*node.dht(), options.name, deadline));
    if (!found) return peer::report_early(peer::failure(found.error()), options.json);
    if (found->empty())
        return peer::report_early(
            peer::Failure{peer::ExitCode::data_missing,
                          fmt::format("no run is listed as '{}' there; a run is listed "
                                      "by `dedloc host --listed`, under the name in "
                                      "its run file",
                                      base::printable(options.name))},
            options.json);
    const double now = node.run_on_network_thread([&] { return node.dht()->wall_now(); });
    if (options.json) {
        const nlohmann::ordered_json json{
            {"ok", true}, {"name", options.name}, {"runs", json_of_found(*found, now)}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
    } else {
        print_found(*found, options.name, now);
    }
    return 0;
}

}  // namespace dedloc::cli
