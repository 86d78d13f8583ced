#include "dedloc/p2p/peer_traffic.h"

namespace dedloc::p2p {

std::shared_ptr<PeerTraffic::Counter> PeerTraffic::counter_of(const PeerId& peer) {
    std::shared_ptr<Counter>& counter = counters_[peer];
    if (counter) return counter;
    counter = std::make_shared<Counter>(all_);
    order_.push_back(peer);
    const std::shared_ptr<Counter> made = counter;
    if (order_.size() > peers_max_) forget_one();
    return made;
}

runtime::Traffic PeerTraffic::with(const PeerId& peer) const {
    const auto found = counters_.find(peer);
    return found == counters_.end() ? runtime::Traffic() : found->second->traffic();
}

void PeerTraffic::forget_one() {
    for (auto peer = order_.begin(); peer != order_.end(); ++peer) {
        const auto found = counters_.find(*peer);
        if (found->second.use_count() > 1) continue;
        counters_.erase(found);
        order_.erase(peer);
        return;
    }
}

}  // namespace dedloc::p2p
