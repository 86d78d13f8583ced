// How much has gone over this node's connections (p2p/peer_traffic.h).
//
// Thread: the network thread.

#pragma once
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/collab/node.h"
#include "dedloc/membership/status.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::collab {

// With all together.
runtime::Traffic traffic_now(const Node& node);

struct TrafficWith {
    PeerId peer;
    runtime::Traffic traffic;
};
// With each of these but us.
std::vector<TrafficWith> traffic_with(const Node& node,
                                      const std::vector<membership::Status>& peers);

}  // namespace dedloc::collab
