// dedloc check --network STRING: how others reach this machine, what was tried, what would help.
//
// Connects to the peers of the join string as a stranger (it says no hello), lets them dial back,
// and asks for a place at those that are relays. Nothing is joined, nothing is kept.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {
namespace {

constexpr Duration dial_timeout = 10s;
constexpr auto look_time = std::chrono::milliseconds(100);

struct Reached {
    std::vector<std::string> peers;     // short ids
    std::vector<std::string> failures;  // a sentence each
};

// A run's relays are for those who may join it: each peer is shown that this machine may.
// In a run that lets in by invitation that takes a token, and a code is good once.
Task<void> show_that_we_may_join(p2p::Host& host, PeerId peer, run::JoinString join) {
    if (!join.authority.is_empty()) co_return;
    auto authorizer = std::make_shared<membership::SecretAuthorizer>(join.secret);
    std::erase_if(join.addresses, [&peer](const std::string& address) {
        const auto parts = run::split_peer_address(address);
        return !parts || parts->peer != peer;
    });
    const TimePoint deadline = host.clock().now() + dial_timeout;
    auto run = co_await collab::fetch_run_file(
        host, host.clock(), std::move(join), std::move(authorizer), deadline);
    if (run) host.protect(peer, true);
}

Task<Result<Reached>> reach_peers(p2p::Host& host, run::JoinString join) {
    Reached reached;
    std::vector<PeerId> asked;
    for (const std::string& address : join.addresses)
        if (const auto parts = run::split_peer_address(address)) {
            host.add_addresses(parts->peer, std::vector<std::string>(1, parts->address));
            if (std::ranges::find(asked, parts->peer) == asked.end()) asked.push_back(parts->peer);
        }
    for (const PeerId& peer : asked) {
        const TimePoint deadline = host.clock().now() + dial_timeout;
        auto connected = co_await host.connect(peer, deadline);
        if (connected) {
            reached.peers.push_back(peer.short_text());
            co_await show_that_we_may_join(host, peer, join);
        } else {
            reached.failures.push_back(connected.error().message());
        }
    }
    co_return reached;
}

struct NetworkVerdict {
    std::string kind;     // for scripts
    std::string meaning;  // for people
    std::string advice;   // empty: nothing to do
};

bool at_own_interface(const p2p::NatReport& nat) {
    return std::ranges::any_of(nat.public_now, [&](const std::string& address) {
        return std::ranges::find(nat.interfaces, address) != nat.interfaces.end();
    });
}

bool is_mapped(const p2p::NatReport& nat) {
    return std::ranges::find(nat.public_now, nat.mapped) != nat.public_now.end();
}

NetworkVerdict verdict_of(const p2p::NatReport& nat, bool reached_anybody, bool still_there) {
    if (!reached_anybody)
        return {"unreached",
                "None of the peers in the join string could be reached, so nobody could look at "
                "this machine from outside.",
                "Check that this machine is on the Internet and that the run is still going; a "
                "fresh join string may help (`dedloc invite` on a peer)."};
    if (nat.reachability == p2p::Reachability::publicly && at_own_interface(nat))
        return {"public", "Others can dial this machine directly.", ""};
    if (nat.reachability == p2p::Reachability::publicly && is_mapped(nat))
        return {"port_mapped",
                "Others can dial this machine directly: " + nat.router +
                    ", as it does whenever dedloc runs.",
                ""};
    if (nat.reachability == p2p::Reachability::publicly)
        return {"port_mapped",
                "Others can dial this machine directly: the router passes the port on.",
                "Keep the same port with --listen 0.0.0.0:PORT; the router passes on that one."};
    if (nat.interfaces.empty())
        return {"cannot_listen",
                "This machine does not listen, so nobody can dial it; it can dial others.",
                "Leave --listen none out, if you can."};
    const std::string forward =
        "To be reached directly: pass a TCP port on in the router and start with --listen "
        "0.0.0.0:PORT; or open it in this machine's firewall.";
    const std::string relays = nat.relays.empty()
                                   ? "No relay among the peers had a place for it, so two such "
                                     "machines would not find each other."
                                   : "";
    if (nat.mapping_varies)
        return {"relay_only",
                "This machine is behind a router that uses a new port for every connection "
                "(symmetric NAT): others reach it through a relay only. " +
                    relays,
                forward};
    if (!nat.observed.empty() && nat.reachability == p2p::Reachability::privately)
        return {"hole_punchable",
                "This machine is behind a router or firewall. Others reach it through a relay at "
                "first; the connection becomes a direct one where both routers allow it. " +
                    relays,
                nat.relays.empty() ? forward : ""};
    if (!still_there)
        return {"unknown",
                "The peers that were reached went away before they could tell how this machine is "
                "reachable.",
                "Try again while the run is going."};
    return {"unknown",
            "The peers that were reached could not tell how this machine is reachable: none of "
            "them sees it at a public address (are they in the same network?), or none answered "
            "the question.",
            ""};
}

void print_text(const NetworkVerdict& verdict, const p2p::NatReport& nat, const Reached& reached) {
    peer::say(stdout, "{}\n", verdict.meaning);
    if (!verdict.advice.empty()) peer::say(stdout, "{}\n", verdict.advice);
    peer::say(stdout, "\nWhat was tried\n");
    for (const std::string& peer : reached.peers) peer::say(stdout, "  reached peer {}\n", peer);
    for (const std::string& failed : reached.failures) peer::say(stdout, "  {}\n", failed);
    for (const std::string& address : nat.interfaces)
        peer::say(stdout, "  listening on {}\n", address);
    for (const std::string& address : nat.observed)
        peer::say(stdout, "  others see us at {}\n", address);
    if (!nat.router.empty()) peer::say(stdout, "  {}\n", nat.router);
    peer::say(stdout, "  dialled back: {}\n", nat.reason);
    for (const auto& use : nat.relays)
        peer::say(stdout, "  peer {} is our relay\n", use.relay.short_text());
}

Result<std::string> make_check_folder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    if (error)
        return make_error(ErrorKind::local_fault,
                          "there is no folder for temporary files ({}); set TMPDIR to one",
                          error.message());
    std::string folder = (parent / "dedloc-check-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr)
        return make_error(ErrorKind::local_fault,
                          "cannot make a temporary folder in {}: {}",
                          parent.string(),
                          std::strerror(errno));
    return folder;
}

constexpr double told_every_s = 10;

// Long enough for an answer to "dial us back", which takes its whole time when it fails.
p2p::NatReport watch_until_known(const collab::Node& node, double seconds_max, bool tells) {
    const double began = peer::steady_seconds();
    const double until = began + seconds_max;
    double next_told = told_every_s;
    if (tells && seconds_max > 0)
        peer::say(
            stderr, "asking them to dial this machine back, for up to {:.0f} s …\n", seconds_max);
    for (;;) {
        const p2p::NatReport nat =
            node.run_on_network_thread([&] { return p2p::nat_of(node.host())->nat_report(); });
        const bool known = nat.reachability != p2p::Reachability::unknown;
        if ((known && !nat.router_is_asked) || peer::interrupts() > 0 ||
            peer::steady_seconds() > until)
            return nat;
        if (tells && peer::steady_seconds() - began >= next_told) {
            peer::say(stderr, "  {:.0f} s so far …\n", next_told);
            next_told += told_every_s;
        }
        std::this_thread::sleep_for(look_time);
    }
}

}  // namespace

int run_check_network(const CheckNetworkOptions& options) {
    peer::catch_interrupts();
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::report_early(peer::failure(join.error()), options.json);
    const auto folder = make_check_folder();
    if (!folder) return peer::report_early(peer::failure(folder.error()), options.json);
    struct Removed {
        const std::string& folder;
        ~Removed() {
            std::error_code ignored;
            std::filesystem::remove_all(folder, ignored);
        }
    };
    const Removed removed{*folder};
    peer::OpeningOptions opening{.directory = *folder, .listen = options.listen, .announce = {}};
    opening.nat.relay = p2p::RelayServing::never;
    opening.nat.map_ports = !options.no_port_mapping;
    auto opened = peer::open_node(join->run, opening);
    if (!opened) return peer::report_early(opened.failure(), options.json);
    collab::Node& node = *opened->node;
    if (!options.json) peer::say(stderr, "connecting to the peers of the join string …\n");
    const auto reached = node.call("reach peers", reach_peers(node.host(), *join));
    if (!reached) return peer::report_early(peer::failure(reached.error()), options.json);
    const bool listens =
        node.run_on_network_thread([&] { return !node.host().addresses().empty(); });
    const double timeout = reached->peers.empty() || !listens ? 0 : options.seconds_max;
    const p2p::NatReport nat = watch_until_known(node, timeout, !options.json);
    const bool still_there =
        node.run_on_network_thread([&] { return !node.host().connected_peers().empty(); });
    const NetworkVerdict verdict = verdict_of(nat, !reached->peers.empty(), still_there);
    if (options.json) {
        const bool ok = !reached->peers.empty();
        nlohmann::ordered_json json{{"ok", ok}};
        if (!ok) json["error"] = verdict.meaning;
        json["reachability"] = verdict.kind;
        json["reason"] = nat.reason;
        json["reached"] = reached->peers.size();
        json["public"] = nat.public_now;
        json["observed"] = nat.observed;
        json["router"] = nat.router;
        json["mapped"] = nat.mapped;
        json["relays"] = nat.relays.size();
        peer::say(stdout, "{}\n", monitor::json_line(json));
    } else {
        print_text(verdict, nat, *reached);
    }
    return reached->peers.empty() ? static_cast<int>(peer::ExitCode::unreachable) : 0;
}

}  // namespace dedloc::cli
