// RunGate: the gate of a run. Members, whom the run's Authorizer has let in and lets stay, speak
// every protocol that their host serves: rounds, certificates, states, experts, the table, and what
// is added later. Strangers speak those alone that are listed by name: stranger_protocols(), and
// what the modules above list (collab/stranger_protocols.h). In an open run everybody whom no order
// keeps out may speak all.
//
// Made by Membership, which closes it when it ends: from then on there are only strangers.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/membership/authorizer.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/p2p/gate.h"

namespace dedloc::membership {

// Lists the protocols of this module that strangers may speak, and why.
std::span<const p2p::OpenProtocol> stranger_protocols();

class RunGate final : public p2p::Gate {
  public:
    // All outlive the last call before close().
    RunGate(const PeerTable& table,
            const Authorizer& authorizer,
            std::function<std::string(const PeerId&)> why_kept_out,
            std::vector<p2p::OpenProtocol> also_open)
        : table_(table),
          authorizer_(authorizer),
          why_kept_out_(std::move(why_kept_out)),
          also_open_(std::move(also_open)) {}

    Ok admits(const PeerId& from, std::string_view method) const override;
    // The run is left.
    void close() { is_closed_ = true; }

  private:
    const PeerTable& table_;
    const Authorizer& authorizer_;
    std::function<std::string(const PeerId&)> why_kept_out_;
    std::vector<p2p::OpenProtocol> also_open_;
    bool is_closed_ = false;
};

}  // namespace dedloc::membership
