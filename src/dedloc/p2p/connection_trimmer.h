// ConnectionTrimmer: which connections may go: those that nobody uses any more, and, when the house
// is full, the one that is missed least. Never one to a needed peer.
//
// Thread: the network thread. Limits: SwarmOptions::connections_max, and those of strangers.

#pragma once
#include <string>
#include <vector>

#include "dedloc/p2p/lanes.h"
#include "dedloc/p2p/strangers.h"

namespace dedloc::p2p {

class ConnectionTrimmer {
  public:
    ConnectionTrimmer(SwarmParts& parts,
                      const ConnectionTable& table,
                      const Lanes& lanes,
                      Strangers& strangers)
        : parts_(parts), table_(table), lanes_(lanes), strangers_(strangers) {}

    // Closes what is idle, from now on.
    void start();
    // At the cost of those that nobody used for so long. False: there are too few, and none went.
    bool make_room_for(std::size_t connections, Duration unused_for = Duration(0));
    void make_room_for_stranger(const std::string& address);
    void let_least_missed_go();

  private:
    Task<void> close_idle_loop();
    TimePoint last_use(PeerConnection& connection) const;
    std::vector<ConnectionPtr> dispensable(Duration unused_for) const;
    void let_go(const ConnectionPtr& one);
    std::size_t stranger_connections_max() const;

    SwarmParts& parts_;
    const ConnectionTable& table_;
    const Lanes& lanes_;
    Strangers& strangers_;
};

}  // namespace dedloc::p2p
