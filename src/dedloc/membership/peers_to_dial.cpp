#include "dedloc/membership/peers_to_dial.h"

#include <algorithm>
#include <set>

#include "dedloc/p2p/nat.h"
#include "dedloc/run/join_string.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::membership {

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

// Addresses of one peer, as it tells them: families, a mapped port, a relay of each family.
constexpr std::size_t direct_dialled_max = 4;
constexpr std::size_t relayed_dialled_max = 4;

bool is_over_relay(const std::string& address) {
    return address.find("/p2p-circuit") != std::string::npos;
}

// The peer's own address, not its relay's.
bool is_public_host(const std::string& address) {
    return leads_out(address) && !is_over_relay(address);
}

bool shares_public_host(const std::vector<std::string>& told, const std::vector<std::string>& own) {
    std::set<std::string> ours;
    for (const std::string& address : own)
        if (is_public_host(address)) ours.insert(p2p::subnet_of(host_in(address).text));
    return std::ranges::any_of(told, [&ours](const std::string& address) {
        return is_public_host(address) && ours.contains(p2p::subnet_of(host_in(address).text));
    });
}

// A network is what is routed as one where nobody says otherwise: 192.168.n.*, 10.n.*.* and
// 172.n.*.*, all of a VPN's 100.64.0.0/10, this machine, the link, and a /64.
std::string network_of(const std::string& ip) {
    if (ip.starts_with("127.") || ip == "::1") return "this machine";
    if (ip.find(':') != std::string::npos) return p2p::subnet_of(ip);
    const std::size_t first = ip.find('.');
    if (ip.starts_with("100.")) return "100.";
    if (first == std::string::npos) return ip;
    const std::size_t second = ip.find('.', first + 1);
    if (!ip.starts_with("192.168.")) return ip.substr(0, second);
    return ip.substr(0, ip.rfind('.'));
}

bool is_in_network_of(const std::string& address, const std::vector<std::string>& own) {
    const DialledHost host = host_in(address);
    // In client mode nothing is told of ours: any may be.
    return host.is_ip && (own.empty() || std::ranges::any_of(own, [&host](const std::string& ours) {
                              const DialledHost there = host_in(ours);
                              return there.is_ip && network_of(there.text) == network_of(host.text);
                          }));
}

}  // namespace

std::vector<std::string> peers_to_dial(p2p::Host& host, const std::vector<std::string>& addresses) {
    std::vector<std::string> one_each;
    std::set<PeerId> peers;
    std::set<std::string> connected;
    for (const std::string& address : addresses) {
        const auto parts = run::split_peer_address(address);
        if (parts) host.add_addresses(parts->peer, std::vector<std::string>(1, parts->address));
        if (parts && !peers.insert(parts->peer).second) continue;
        if (parts && host.is_connected(parts->peer)) connected.insert(address);
        one_each.push_back(address);
    }
    std::ranges::stable_partition(
        one_each, [&connected](const std::string& address) { return connected.contains(address); });
    return one_each;
}

std::vector<std::string> addresses_to_dial(const std::vector<std::string>& told,
                                           const std::vector<std::string>& own) {
    const bool one_public = shares_public_host(told, own);
    const bool public_here = std::ranges::any_of(own, is_public_host);
    std::size_t direct_left = direct_dialled_max;
    std::size_t relayed_left = relayed_dialled_max;
    std::vector<std::string> dialled;
    for (const std::string& address : told) {
        const bool near = public_here ? one_public : is_in_network_of(address, own);
        if (!leads_out(address) && !near) continue;
        std::size_t& left = is_over_relay(address) ? relayed_left : direct_left;
        if (left == 0) continue;
        --left;
        dialled.push_back(address);
    }
    return dialled;
}

bool leads_out(const std::string& address) {
    const DialledHost host = host_in(address);
    return !host.text.empty() && (!host.is_ip || p2p::is_public_address(host.text));
}

bool stays_on_machine(const std::string& address) {
    const DialledHost host = host_in(address);
    return host.is_ip && (host.text.starts_with("127.") || host.text == "::1");
}

}  // namespace dedloc::membership
