// RelayService: carries the encrypted connections of peers that nobody can dial. The work is the
// host's (NodeOptions::nat.relay = always); this says that the node is there for it, and how much
// it carried.
//
// Thread: the owner's.

#pragma once
#include "dedloc/collab/node.h"

namespace dedloc::collab {

class RelayService final : public Service {
  public:
    explicit RelayService(const Node& node) : node_(node) {}
    membership::Role role() const override { return membership::Role::relay; }
    Task<void> stop() override { co_return; }

    p2p::RelayCounters counters() const {
        return node_.run_on_network_thread(
            [this] { return p2p::nat_of(node_.host())->nat_report().relay; });
    }

  private:
    const Node& node_;
};

}  // namespace dedloc::collab
