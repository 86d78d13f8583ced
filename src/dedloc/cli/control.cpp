// dedloc pause, resume, limit and publish: what a user asks of a peer that runs on this machine, by
// a file in its folder (peer/peer_control.h).

#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_control.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"

namespace dedloc::cli {
namespace {

// The one that is named, or the only one that runs here.
peer::Outcome<std::string> folder_meant(const std::string& directory) {
    if (!directory.empty()) return directory;
    const auto root = peer::state_root();
    if (!root) return peer::failure(peer::ExitCode::disk, root.error());
    const auto peers = peer::running_peers(*root);
    if (peers.size() == 1) return peers.front().path;
    if (peers.empty())
        return peer::Failure{peer::ExitCode::unreachable,
                             "no peer of yours is running on this machine (looked in " + *root +
                                 "); for one started with --dir, give its folder"};
    std::string text = "several peers are running here; say which one:";
    for (const peer::RunningPeer& peer : peers)
        text += "\n  " + peer.path + " (" + peer.run_name + ")";
    return peer::Failure{peer::ExitCode::bad_input, text};
}

std::string what_was_done(const ControlOptions& options) {
    if (options.action == "pause") return "paused: it computes nothing until `dedloc resume`";
    if (options.action == "resume") return "resumed: it computes again";
    if (options.action == "publish")
        return "its newest state is saved, and then published; `published` in its event log says "
               "when that is done";
    return "its caps are changed; they hold within a second, until it ends";
}

}  // namespace

int run_control(const ControlOptions& options) {
    if (options.action == "limit" && options.caps.max_up.empty() && options.caps.max_down.empty())
        return peer::report({peer::ExitCode::bad_input,
                             "say what the peer may take of its line: --max-up, --max-down, or "
                             "both (off: no limit)"});
    auto folder = folder_meant(options.directory);
    if (!folder) return peer::report(folder.failure());
    const Ok done = peer::ask_peer(
        *folder,
        {.action = options.action, .up = options.caps.max_up, .down = options.caps.max_down});
    if (!done) {
        const bool nobody = done.error().kind() == ErrorKind::not_found ||
                            done.error().kind() == ErrorKind::timeout;
        return peer::report(nobody ? peer::failure(peer::ExitCode::unreachable, done.error())
                                   : peer::failure(done.error()));
    }
    if (options.json)
        peer::say(stdout,
                  "{}\n",
                  monitor::json_line(nlohmann::ordered_json{
                      {"ok", true}, {"action", options.action}, {"directory", *folder}}));
    else
        peer::say(stdout, "{}: {}\n", *folder, what_was_done(options));
    return 0;
}

}  // namespace dedloc::cli
