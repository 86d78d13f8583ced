// Placement: who serves an expert that nobody serves, and who keeps copies of one. Pure functions
// of what all servers can read in the table, so that they agree without talking.
//
// Rendezvous hashing: of each (expert, server) a number; the server with the highest is the first.
// Its loss moves only its own experts. An assignment fills servers in proportion to what they can
// take, so that the least loaded take what is least served.
//
// Source: Thaler, Ravishankar 1996; bounded loads: Mirrokni et al. 2016. Thread: any.

#pragma once
#include <map>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/experts/uid.h"

namespace dedloc::experts {

struct ServerRoom {
    PeerId server;
    std::size_t experts_max = 0;  // that it can serve
    std::size_t hosted = 0;       // that it serves now
};

// Servers by their rank for one expert, first the one that comes first.
std::vector<PeerId> ranked(const std::string& uid, const std::vector<PeerId>& servers);

// The server that each of `missing` falls to; experts for which nobody has room are not in it.
// `experts_count`: of the whole grid: nobody takes more than its share of them while others have
// room.
std::map<ExpertUid, PeerId> assign(const std::vector<ExpertUid>& missing,
                                   std::vector<ServerRoom> servers,
                                   std::uint64_t experts_count);

}  // namespace dedloc::experts
