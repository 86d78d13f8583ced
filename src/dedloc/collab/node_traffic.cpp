#include "dedloc/collab/node_traffic.h"

#include "dedloc/p2p/diagnostics.h"

namespace dedloc::collab {

runtime::Traffic traffic_now(const Node& node) {
    const p2p::PeerView* view = p2p::view_of(node.host());
    return view != nullptr ? view->traffic_with_all() : runtime::Traffic();
}

std::vector<TrafficWith> traffic_with(const Node& node,
                                      const std::vector<membership::Status>& peers) {
    std::vector<TrafficWith> all;
    const p2p::PeerView* view = p2p::view_of(node.host());
    if (view == nullptr) return all;
    for (const membership::Status& status : peers)
        if (status.peer != node.id())
            all.push_back({.peer = status.peer, .traffic = view->traffic_with(status.peer)});
    return all;
}

}  // namespace dedloc::collab
