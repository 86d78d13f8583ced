#include "dedloc/collab/peers_to_dial.h"

#include <algorithm>
#include <set>

#include "dedloc/collab/join_string.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::collab {

namespace {

struct DialledHost {
    std::string text;  // empty: none that we know
    bool is_ip = false;
};

DialledHost host_in(const std::string& address) {
    const auto parsed = wire::Multiaddr::from_text(address);
    if (!parsed) return {};
    const wire::MultiaddrCode code = parsed->parts().front().code;
    return {.text = parsed->host().value_or(""),
            .is_ip = code == wire::MultiaddrCode::ip4 || code == wire::MultiaddrCode::ip6};
}

}  // namespace

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

bool leads_out(const std::string& address) {
    const DialledHost host = host_in(address);
    return !host.text.empty() && (!host.is_ip || p2p::is_public_address(host.text));
}

bool stays_on_machine(const std::string& address) {
    const DialledHost host = host_in(address);
    return host.is_ip && (host.text.starts_with("127.") || host.text == "::1");
}

}  // namespace dedloc::collab
