// The peers to dial, by the addresses of a join string, and whether that can work from elsewhere.
//
// Thread: the network thread; of the questions about one address: any.

#pragma once
#include <string>
#include <vector>

#include "dedloc/p2p/host.h"

namespace dedloc::membership {

// One address of each peer, as the host is told the others and tries all of them side by side. Who
// is connected already comes first: the others may be gone.
std::vector<std::string> peers_to_dial(p2p::Host& host, const std::vector<std::string>& addresses);

// Picks those of a member's addresses that are worth dialling from where `own` lead: a few
// direct ones and a few over relays. One that means something else in every network only if both
// stand in the same one: they tell the same public address or, where we have none to tell, it is in
// a network of ours. A member must not make others knock at machines of their own networks.
std::vector<std::string> addresses_to_dial(const std::vector<std::string>& told,
                                           const std::vector<std::string>& own);

// Does a multiaddr lead there from other networks? It does if it begins with a public IP address or
// a name: the peer's own, or its relay's.
bool leads_out(const std::string& address);
// From this very machine only?
bool stays_on_machine(const std::string& address);

}  // namespace dedloc::membership
