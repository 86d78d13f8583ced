// Shows a grid from outside: who serves which expert, how far each has come, and what
// the servers say of their load. Asks the table once, until the deadline, and then each server
// once, for two seconds.
//
// Errors: none; what does not answer is not there, or does not answer. Records are anybody's claims
// until their server has been asked (`answers`). Thread: the network thread.

#pragma once
#include <optional>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/experts/directory.h"
#include "dedloc/experts/host_messages.h"

namespace dedloc::experts {

struct ServerSeen {
    PeerId server;
    ServerRecordPayload record;
};

struct ExpertSeen {
    ExpertUid uid;
    std::optional<PeerId> server;  // none: nobody serves it
    bool answers = false;          // it says itself that it serves it
    std::uint64_t updates = 0;
};

struct GridSeen {
    std::vector<ServerSeen> servers;
    std::vector<ExpertSeen> experts;  // in the grid's order

    std::size_t served() const;
};

// The table's key of the servers' own records.
dht::DhtId servers_key(const ExpertGrid& grid);
std::vector<ServerSeen> servers_from(const dht::Stored& stored);

Task<GridSeen> survey_grid(p2p::Host& host,
                           dht::DhtNode& table,
                           Directory& directory,
                           ExpertGrid grid,
                           TimePoint deadline);

}  // namespace dedloc::experts
