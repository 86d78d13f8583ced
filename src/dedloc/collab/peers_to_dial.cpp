#include "dedloc/collab/peers_to_dial.h"

#include <algorithm>
#include <set>

#include "dedloc/collab/join_string.h"

namespace dedloc::collab {

std::vector<std::string> peers_to_dial(p2p::Host& host, const std::vector<std::string>& addresses) {
    std::vector<std::string> one_each;
    std::set<PeerId> peers;
    std::set<std::string> connected;
    for (const std::string& address : addresses) {
        const auto parts = split_peer_address(address);
        if (parts) host.add_addresses(parts->peer, std::vector<std::string>(1, parts->address));
        if (parts && !peers.insert(parts->peer).second) continue;
        if (parts && host.is_connected(parts->peer)) connected.insert(address);
        one_each.push_back(address);
    }
    std::ranges::stable_partition(
        one_each, [&connected](const std::string& address) { return connected.contains(address); });
    return one_each;
}

}  // namespace dedloc::collab
