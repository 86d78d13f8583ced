// dedloc invite: prints a current join string of a peer that runs on this machine. The peer
// refreshes it in its folder; nothing is asked over the network.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/exit_codes.h"
#include "dedloc/cli/peer_directory.h"
#include "dedloc/cli/say.h"
#include "dedloc/monitor/json_line.h"

namespace dedloc::cli {

int run_invite(const InviteOptions& options) {
    std::vector<RunningPeer> peers;
    if (!options.directory.empty()) {
        auto peer = running_peer(options.directory);
        if (!peer) return report(failure(ExitCode::unreachable, peer.error()));
        peers.push_back(*std::move(peer));
    } else {
        const auto root = state_root();
        if (!root) return report(failure(ExitCode::disk, root.error()));
        peers = running_peers(*root);
        if (peers.empty())
            return report({ExitCode::unreachable,
                           "no peer of yours is running on this machine (looked in " + *root +
                               "); for one started with --dir, give the same --dir"});
    }
    const RunningPeer& first = peers.front();
    if (options.json) {
        const nlohmann::ordered_json json{{"run", first.run_name},
                                          {"directory", first.path},
                                          {"join_string", first.join_string},
                                          {"age_seconds", first.join_age_s}};
        say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    for (std::size_t i = 1; i < peers.size(); ++i)
        if (peers[i].run_name != first.run_name)
            say(stderr, "also running: {} in {}\n", peers[i].run_name, peers[i].path);
    say(stdout, "{}\n", first.join_string);
    return 0;
}

}  // namespace dedloc::cli
