// One trainer's life, for host and join alike: model, collaboration, trainer thread, view, join
// string on disk, checkpoints, and a good end.
//
// Thread: the main thread; it draws, saves and waits, others compute and talk.

#pragma once
#include <optional>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_options.h"
#include "dedloc/peer/warm_start.h"
#include "dedloc/state/checkpoint.h"

namespace dedloc::peer {

struct PeerRunInput {
    collab::Invitation invitation;            // without addresses: this peer hosts
    std::optional<state::Checkpoint> resume;  // host: go on from here
    std::optional<WarmSource> from;           // host: begin a new run with this model
    OpenedNode opened;
    std::shared_ptr<admission::Issuer> issuer{};  // of an organiser's peer
    double started = 0;                           // steady seconds when the command began
};

// Returns the exit code.
int run_peer(PeerRunInput input, const PeerOptions& options);

double steady_seconds();
WallSeconds wall_seconds();  // since 1970
std::string host_name();

}  // namespace dedloc::peer
