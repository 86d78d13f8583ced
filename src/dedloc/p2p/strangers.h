// Strangers: what peers that nobody needs, and nobody has vouched for, may cost: their turn to be
// read from, the work of their handshakes, the memory that their bytes may take.
//
// Thread: the network thread. Limits: limits.h.

#pragma once
#include <memory>
#include <set>
#include <string>

#include "dedloc/p2p/connection_table.h"
#include "dedloc/p2p/stranger_budget.h"

namespace dedloc::p2p {

// A stranger that comes over a relay comes from its relay's address, to us.
std::string address_behind(const PeerConnection& connection);

class Strangers {
  public:
    Strangers(SwarmParts& parts, const ConnectionTable& table);

    bool contain(const PeerId& peer) const;
    // The peer is no stranger, as long as it is connected.
    void vouch(const PeerId& peer);
    bool is_vouched_for(const PeerId& peer) const { return vouched_for_.contains(peer); }
    // Counts what a stranger cost; nothing for others.
    void spend(const PeerId& peer, const StrangerBudget::Cost& cost);
    // Waits while a stranger is beyond its share, for stranger_pause_max at most.
    Task<void> turn(PeerId peer);
    // Waits before a handshake of whoever comes from this address.
    Task<void> wait_at_the_door(std::string address);

    // A connection to this peer ended; the peer has no other.
    void one_ended(const PeerId& peer);
    void is_gone(const PeerId& peer) { vouched_for_.erase(peer); }
    // To be called now and then.
    void give_back_memory();
    const std::shared_ptr<transport::StreamMemory>& stream_memory() const { return memory_; }

  private:
    StrangerBudget::Asker asker(const PeerId& peer) const;
    void limit_memory();

    SwarmParts& parts_;
    const ConnectionTable& table_;
    std::shared_ptr<transport::StreamMemory> memory_ = std::make_shared<transport::StreamMemory>();
    StrangerBudget budget_;
    std::set<PeerId> vouched_for_;
    std::size_t ended_ = 0;  // since memory was given back
};

}  // namespace dedloc::p2p
