// HostDiagnostics: what a host on real connections knows of its peers and of the way to them, for
// people and tests. The host itself only speaks.
//
// Thread: the network thread. Lifetime: what is passed outlives it.

#pragma once
#include "dedloc/base/random.h"
#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/kad_find_node.h"
#include "dedloc/p2p/nat_service.h"
#include "dedloc/p2p/swarm.h"

namespace dedloc::p2p {

class HostDiagnostics final : public NatView, public PeerView {
  public:
    HostDiagnostics(
        Host& host, Swarm& swarm, PeerFinder& finder, const NatService& nat, Random& random)
        : host_(host), swarm_(swarm), finder_(finder), nat_(nat), random_(random) {}

    NatReport nat_report() const override { return nat_.report(); }
    Path path_to(const PeerId& peer) const override;
    bool is_punching(const PeerId& peer) const override { return nat_.is_punching(peer); }

    std::optional<PeerFacts> facts_of(const PeerId& peer) const override;
    runtime::Traffic traffic_with(const PeerId& peer) const override {
        return swarm_.traffic().with(peer);
    }
    runtime::Traffic traffic_with_all() const override { return swarm_.traffic().with_all(); }
    Task<Result<Duration>> ping(PeerId peer, TimePoint deadline) override;
    Task<Result<std::vector<std::string>>> find_peer(PeerId peer, TimePoint deadline) override;

  private:
    Host& host_;
    Swarm& swarm_;
    PeerFinder& finder_;
    const NatService& nat_;
    Random& random_;
};

}  // namespace dedloc::p2p
