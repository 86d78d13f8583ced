// dedloc join: takes part in a run. The run file comes from its peers and is checked against the
// join string's hash.

#include "dedloc/cli/commands.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/ended_run.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/run/join_string.h"
#include "dedloc/train/host_access.h"

namespace dedloc::cli {
namespace {

// Nobody was there to say anything.
bool is_silence(const Error& error) { return peer::code_for(error) == peer::ExitCode::unreachable; }

peer::Outcome<peer::PeerRunInput> joining(const JoinOptions& options) {
    peer::PeerRunInput input;
    input.started = peer::steady_seconds();
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::failure(join.error());
    auto opened = peer::open_node(join->run, peer::opening_options(options.peer));
    if (!opened) return opened.failure();
    input.opened = std::move(*opened);
    auto reached = train::reach_run(*input.opened.node,
                                    options.join_string,
                                    peer::reach_timeout,
                                    options.peer.name,
                                    peer::host_name());
    const auto ended = [&] { return peer::end_seen_here(join->run, input.opened.directory); };
    if (!reached && (is_silence(reached.error()) || ended()))
        return peer::Failure{
            peer::ExitCode::unreachable,
            peer::why_nobody_answers(*join, input.opened.directory, reached.error().message())};
    if (!reached) return peer::failure(reached.error());
    input.invitation = std::move(reached->invitation);
    input.issuer = std::move(reached->issuer);
    return input;
}

}  // namespace

int run_join(const JoinOptions& options) {
    auto input = joining(options);
    if (!input) return peer::report_early(input.failure(), options.peer.json);
    return peer::run_peer(std::move(*input), options.peer);
}

}  // namespace dedloc::cli
