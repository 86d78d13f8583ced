// dedloc join: takes part in a run. The run file comes from its peers and is checked against the
// join string's hash.

#include "dedloc/cli/commands.h"
#include "dedloc/cli/early_failure.h"
#include "dedloc/cli/exit_codes.h"
#include "dedloc/cli/peer_run.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {
namespace {

Outcome<PeerRunInput> joining(const JoinOptions& options) {
    PeerRunInput input;
    input.started = steady_seconds();
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return failure(join.error());
    auto opened = open_node(join->run, opening_options(options.peer));
    if (!opened) return opened.failure();
    input.opened = std::move(*opened);
    auto invitation =
        collab::fetch_invitation(*input.opened.node, options.join_string, reach_patience);
    if (!invitation) return failure(invitation.error());
    input.invitation = *std::move(invitation);
    return input;
}

}  // namespace

int run_join(const JoinOptions& options) {
    auto input = joining(options);
    if (!input) return report_early(input.failure(), options.peer.json);
    return run_peer(std::move(*input), options.peer);
}

}  // namespace dedloc::cli
