// dedloc invite: prints a current join string of a peer that runs on this machine; with a name, one
// for that person alone. The peer refreshes the string in its folder, and looks there for whom to
// let in; nothing is asked over the network.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/organiser_commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/organiser_wish.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"

namespace dedloc::cli {
namespace {

constexpr std::size_t list_bytes_max = 1u << 20;

int print_string_of_peer(const InviteOptions& options) {
    std::vector<peer::RunningPeer> peers;
    if (!options.directory.empty()) {
        auto peer = peer::running_peer(options.directory);
        if (!peer) return peer::report(peer::failure(peer::ExitCode::unreachable, peer.error()));
        peers.push_back(*std::move(peer));
    } else {
        const auto root = peer::state_root();
        if (!root) return peer::report(peer::failure(peer::ExitCode::disk, root.error()));
        peers = peer::running_peers(*root);
        if (peers.empty())
            return peer::report({peer::ExitCode::unreachable,
                                 "no peer of yours is running on this machine (looked in " + *root +
                                     "); for one started with --dir, give the same --dir"});
    }
    const peer::RunningPeer& first = peers.front();
    const auto join = run::parse_join_string(first.join_string);
    if (join && !join->authority.is_empty())
        peer::say(
            stderr,
            "dedloc: this string lets back in who has a token already; `dedloc invite NAME` makes "
            "one for a person who has none\n");
    if (options.json) {
        const nlohmann::ordered_json json{{"run", first.run_name},
                                          {"directory", first.path},
                                          {"join_string", first.join_string},
                                          {"age_seconds", first.join_age_s}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    for (std::size_t i = 1; i < peers.size(); ++i)
        if (peers[i].run_name != first.run_name)
            peer::say(stderr, "also running: {} in {}\n", peers[i].run_name, peers[i].path);
    peer::say(stdout, "{}\n", first.join_string);
    return 0;
}

peer::Outcome<std::vector<std::string>> names_to_invite(const InviteOptions& options) {
    if (options.list.empty()) return std::vector<std::string>{options.name};
    const auto text = peer::read_text_file(options.list, list_bytes_max);
    if (!text) return peer::failure(text.error());
    auto names = admission::parse_list_of_names(*text);
    if (!names) return peer::failure(std::move(names).error().with_context(options.list));
    if (names->empty())
        return peer::Failure{peer::ExitCode::bad_input, options.list + " names nobody"};
    return *std::move(names);
}

}  // namespace

int run_invite(const InviteOptions& options) {
    if (options.name.empty() && options.list.empty()) return print_string_of_peer(options);
    auto names = names_to_invite(options);
    if (!names) return peer::report(names.failure());
    auto peer = organising_peer(options.directory);
    if (!peer) return peer::report(peer.failure());
    for (const std::string& name : *names) {
        auto text = peer::personal_string(
            peer->path, peer->join_string, name, options.days, options.organiser);
        if (!text) return peer::report(text.failure());
        if (options.json) {
            const nlohmann::ordered_json json{{"run", peer->run_name},
                                              {"name", name},
                                              {"days", options.days},
                                              {"join_string", *text}};
            peer::say(stdout, "{}\n", monitor::json_line(json));
        } else if (options.list.empty()) {
            peer::say(stdout, "{}\n", *text);
        } else {
            peer::say(stdout, "{}\t{}\n", name, *text);
        }
    }
    return 0;
}

int run_revoke(const RevokeOptions& options) {
    auto peer = organising_peer(options.directory);
    if (!peer) return peer::report(peer.failure());
    if (auto refused = peer::revoke_person(peer->path, options.name)) return peer::report(*refused);
    if (options.json) {
        const nlohmann::ordered_json json{{"run", peer->run_name}, {"revoked", options.name}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
    } else {
        peer::say(
            stdout, "{} is revoked: no peer of the run takes a token of theirs\n", options.name);
    }
    return 0;
}

}  // namespace dedloc::cli
