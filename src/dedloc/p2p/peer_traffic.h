// PeerTraffic: how much has gone over the connections to each peer, in each direction: what sockets
// took and gave, handshakes apart, encryption and framing included. Of a relayed peer it is counted
// for that peer, and once more for the relay.
//
// Thread: the network thread. Limits: peers_max peers without a connection; those whose counter was
// made first are forgotten first. Cost: an addition where a connection reads or writes.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "dedloc/base/peer_id.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::p2p {

class PeerTraffic {
  public:
    // Connections to one peer share a counter.
    class Counter {
      public:
        explicit Counter(std::shared_ptr<runtime::Traffic> all) : all_(std::move(all)) {}
        void sent(std::size_t bytes) {
            peer_.sent_bytes += bytes;
            all_->sent_bytes += bytes;
        }
        void received(std::size_t bytes) {
            peer_.received_bytes += bytes;
            all_->received_bytes += bytes;
        }
        const runtime::Traffic& traffic() const { return peer_; }

      private:
        runtime::Traffic peer_{};
        std::shared_ptr<runtime::Traffic> all_;
    };

    explicit PeerTraffic(std::size_t peers_max = 1024) : peers_max_(peers_max) {}

    std::shared_ptr<Counter> counter_of(const PeerId& peer) {
        std::shared_ptr<Counter>& counter = counters_[peer];
        if (counter) return counter;
        counter = std::make_shared<Counter>(all_);
        order_.push_back(peer);
        const std::shared_ptr<Counter> made = counter;
        if (order_.size() > peers_max_) forget_one();
        return made;
    }
    // Never less than at an earlier look, while the peer is connected.
    runtime::Traffic with(const PeerId& peer) const {
        const auto found = counters_.find(peer);
        return found == counters_.end() ? runtime::Traffic() : found->second->traffic();
    }
    runtime::Traffic with_all() const { return *all_; }

  private:
    // The first that no connection has; all have one: none.
    void forget_one() {
        for (auto peer = order_.begin(); peer != order_.end(); ++peer) {
            const auto found = counters_.find(*peer);
            if (found->second.use_count() > 1) continue;
            counters_.erase(found);
            order_.erase(peer);
            return;
        }
    }

    const std::size_t peers_max_;
    std::shared_ptr<runtime::Traffic> all_ = std::make_shared<runtime::Traffic>();
    std::map<PeerId, std::shared_ptr<Counter>> counters_;
    std::deque<PeerId> order_;
};

}  // namespace dedloc::p2p
