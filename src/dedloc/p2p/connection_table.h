// ConnectionTable: the open connections of a host by peer, and which of two to the same peer is
// used.
//
// Two peers that dial each other at the same time get two connections. Both sides prefer the one
// whose dialler has the smaller id (of two by the same dialler: the newer), once it has shown a
// sign of life; the other takes no new streams, finishes those it has, and closes. Nothing that
// was begun on it is lost. A relayed connection gives way to a direct one in the same way.
//
// Thread: the network thread. Limits: connections_per_peer_max; what all may be: its owner.

#pragma once
#include <map>
#include <vector>

#include "dedloc/p2p/swarm_parts.h"

namespace dedloc::p2p {

class ConnectionTable {
  public:
    using Twins = std::vector<ConnectionPtr>;

    explicit ConnectionTable(SwarmParts& parts) : parts_(parts) {}

    // The connection new streams belong on; null when there is none.
    ConnectionPtr best(const PeerId& peer) const { return choose(peer, false); }
    // The same among those that are not relayed.
    ConnectionPtr direct(const PeerId& peer) const { return choose(peer, true); }
    const Twins& to(const PeerId& peer) const;
    const std::map<PeerId, Twins>& by_peer() const { return peers_; }
    std::vector<PeerId> peers() const;
    std::vector<ConnectionPtr> all() const;

    // Connections, and the lanes beside them that were counted here.
    std::size_t count() const { return count_; }
    void count_lanes(std::size_t more) { count_ += more; }
    void uncount_lanes(std::size_t fewer) { count_ -= fewer; }

    void put(ConnectionPtr connection);
    // Picks the one that is used from now on; the others end.
    void settle(const PeerId& peer);
    enum class Taken { none, one_of_several, last };
    Taken take_out(const PeerConnection* connection);
    // Ends `loser` when it is idle and `winner` has shown that it lives.
    Task<void> drain(ConnectionPtr loser, ConnectionPtr winner);

  private:
    ConnectionPtr choose(const PeerId& peer, bool direct_only) const;
    bool is_preferred(const PeerConnection& a, const PeerConnection& b) const;

    SwarmParts& parts_;
    std::map<PeerId, Twins> peers_;
    std::size_t count_ = 0;
};

}  // namespace dedloc::p2p
