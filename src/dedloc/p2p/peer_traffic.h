// PeerTraffic: how many bytes the sockets to each peer took and gave: encryption and framing count,
// handshakes do not. A relayed connection's bytes count for its peer, and once more for the relay.
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

    std::shared_ptr<Counter> counter_of(const PeerId& peer);
    // The counts of a connected peer never become less.
    runtime::Traffic with(const PeerId& peer) const;
    runtime::Traffic with_all() const { return *all_; }

  private:
    // Forgets the oldest counter of a peer without a connection, if there is one.
    void forget_one();

    const std::size_t peers_max_;
    std::shared_ptr<runtime::Traffic> all_ = std::make_shared<runtime::Traffic>();
    std::map<PeerId, std::shared_ptr<Counter>> counters_;
    std::deque<PeerId> order_;
};

}  // namespace dedloc::p2p
