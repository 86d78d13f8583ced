// The traffic of a node: how many bytes went over its connections (p2p/peer_traffic.h).
//
// Thread: the network thread.

#pragma once
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/collab/node.h"
#include "dedloc/membership/status.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::collab {

// Over the connections to all peers.
runtime::Traffic traffic_now(const Node& node);

struct TrafficWith {
    PeerId peer;
    runtime::Traffic traffic;
};
// Over the connections to each of these peers; the node itself is left out.
std::vector<TrafficWith> traffic_with(const Node& node,
                                      const std::vector<membership::Status>& peers);

}  // namespace dedloc::collab
