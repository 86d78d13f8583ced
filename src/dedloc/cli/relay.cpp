// dedloc relay: a public machine for peers that nobody can dial. It carries their encrypted
// connections and takes no part in training.
//
// With a join string it becomes known to the run's peers by itself; without one it prints the
// address for their --relay.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/relay_service.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"
#include "dedloc/train/host_access.h"

namespace dedloc::cli {
namespace {

constexpr double report_every_s = 60;
constexpr double router_timeout_s = 5;
constexpr auto relay_look_time = std::chrono::milliseconds(200);
constexpr const char* default_listen = "/ip4/0.0.0.0/tcp/4001";

p2p::NatReport nat_report(const collab::Node& node) {
    return node.run_on_network_thread([&] { return p2p::nat_of(node.host())->nat_report(); });
}

std::string mebibytes(std::uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void say_counters(const p2p::RelayCounters& counters) {
    peer::say(stdout,
              "{} peers are reachable through this relay, {} connections now, {} carried\n",
              counters.reservations,
              counters.circuits,
              mebibytes(counters.bytes));
}

// Makes the relay known to the peers of the run.
std::optional<peer::Failure> help_run(const peer::OpenedNode& opened,
                                      collab::CollaborationService& service,
                                      const std::string& join_string) {
    auto reached = train::reach_run(*opened.node, join_string, peer::reach_timeout);
    if (!reached) return peer::failure(reached.error());
    collab::CollaborationOptions options;
    options.run = std::move(reached->invitation.run);
    reached->invitation.hand_over(options);
    options.role = membership::Role::observer;
    options.name = "relay";
    options.table_use = collab::TableUse::store;
    options.join_timeout = peer::reach_timeout;
    const auto begun = service.begin(std::move(options), nullptr);
    if (!begun) return peer::failure(begun.error());
    return std::nullopt;
}

// The string that people pass on should have the address that the router opens.
void wait_for_router(const collab::Node& node) {
    const double until = peer::steady_seconds() + router_timeout_s;
    while (peer::interrupts() == 0 && peer::steady_seconds() < until &&
           nat_report(node).router_is_asked)
        std::this_thread::sleep_for(relay_look_time);
}

void say_addresses(const collab::Node& node, bool json) {
    const auto addresses = node.run_on_network_thread([&] { return node.host().addresses(); });
    std::FILE* out = json ? stderr : stdout;
    peer::say(out, "This relay is\n");
    for (const std::string& address : addresses)
        peer::say(out, "  {}/p2p/{}\n", address, node.id().text());
    peer::say(out,
              "Who hosts a run where nobody can be dialled names it, by an address that others "
              "can reach: {} host RUNFILE --relay ADDRESS. Who joins then needs only the join "
              "string.\n",
              peer::as_others_call_it());
}

}  // namespace

int run_relay(const RelayOptions& options) {
    peer::catch_interrupts();
    const double started = peer::steady_seconds();
    peer::OpeningOptions opening{
        .directory = options.directory, .listen = options.listen, .announce = options.announce};
    if (opening.listen.empty()) opening.listen.emplace_back(default_listen);
    opening.nat.relay = p2p::RelayServing::always;
    // Without a run it has no members.
    const bool for_anyone = options.join_string.empty() || options.relay_for == "anyone";
    opening.nat.relay_for = for_anyone ? p2p::RelayFor::anyone : p2p::RelayFor::members;
    opening.nat.map_ports = !options.no_port_mapping;
    opening.congestion_control = options.congestion_control;
    opening.caps = options.caps;
    Digest run;
    if (!options.join_string.empty()) {
        const auto join = run::parse_join_string(options.join_string);
        if (!join) return peer::report_early(peer::failure(join.error()), options.json);
        run = join->run;
    }
    auto opened = peer::open_node(run, opening);
    if (!opened) return peer::report_early(opened.failure(), options.json);
    collab::Node& node = *opened->node;
    node.join_table();  // names of runs are kept here, too
    const auto& relay = node.add<collab::RelayService>(node);
    auto& service = node.add<collab::CollaborationService>(node);
    wait_for_router(node);
    say_addresses(node, options.json);
    if (!options.join_string.empty())
        if (const auto failed = help_run(*opened, service, options.join_string))
            return peer::report_early(*failed, options.json);

    double reported = started;
    while (peer::interrupts() == 0) {
        const double now = peer::steady_seconds();
        if (options.seconds > 0 && now - started >= options.seconds) break;
        if (now - reported >= report_every_s && !options.json) {
            reported = now;
            say_counters(relay.counters());
        }
        std::this_thread::sleep_for(relay_look_time);
    }
    const p2p::RelayCounters counters = relay.counters();
    if (!options.join_string.empty()) service.leave(peer::goodbye_max);
    if (options.json) {
        const nlohmann::ordered_json json{{"ok", true},
                                          {"peer", node.id().text()},
                                          {"reservations", counters.reservations},
                                          {"connections", counters.circuits_begun},
                                          {"refused", counters.refused},
                                          {"bytes", counters.bytes}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
    } else {
        say_counters(counters);
    }
    return 0;
}

}  // namespace dedloc::cli
