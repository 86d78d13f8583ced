#include "dedloc/p2p/nat_observed.h"

#include <algorithm>

#include "dedloc/p2p/ip_family.h"
#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {

namespace {

void add_once(std::vector<wire::Multiaddr>& list, const wire::Multiaddr& address) {
    if (std::ranges::find(list, address) == list.end()) list.push_back(address);
}

}  // namespace

bool ObservedAddresses::note(Observation observation) {
    const auto host = observation.address.host();
    if (!observation.address.is_plain_tcp() || !host || !is_public_(*host)) return false;
    observation.address = observation.address.without_peer();
    // Kept for each family: how a NAT maps IPv4 is not known from IPv6.
    const auto before = std::ranges::find_if(seen_, [&](const Observation& one) {
        return one.observer == observation.observer &&
               is_ip6(one.address.host().value_or("")) == is_ip6(*host);
    });
    if (before != seen_.end()) {
        // A later connection from another port does not replace the better knowledge,
        // unless that is out of date.
        const bool is_same_host = before->address.host() == host;
        if (before->of_listen_port && !observation.of_listen_port && is_same_host) return false;
        if (before->address == observation.address &&
            before->of_listen_port == observation.of_listen_port)
            return false;
        seen_.erase(before);
    }
    if (seen_.size() >= observers_max) seen_.erase(seen_.begin());
    seen_.push_back(std::move(observation));
    return true;
}

void ObservedAddresses::forget(const PeerId& observer) {
    std::erase_if(seen_, [&](const Observation& one) { return one.observer == observer; });
}

std::vector<PeerId> ObservedAddresses::observers() const {
    std::vector<PeerId> observers;
    for (const Observation& one : seen_) observers.push_back(one.observer);
    return observers;
}

std::vector<wire::Multiaddr> ObservedAddresses::all() const {
    std::vector<wire::Multiaddr> addresses;
    for (auto one = seen_.rbegin(); one != seen_.rend(); ++one) add_once(addresses, one->address);
    return addresses;
}

std::vector<wire::Multiaddr> ObservedAddresses::mapped() const {
    std::vector<wire::Multiaddr> addresses;
    for (auto one = seen_.rbegin(); one != seen_.rend(); ++one)
        if (one->of_listen_port) add_once(addresses, one->address);
    return addresses;
}

bool ObservedAddresses::mapping_varies() const {
    for (const Observation& a : seen_)
        for (const Observation& b : seen_)
            if (a.of_listen_port && b.of_listen_port && a.observer_ip != b.observer_ip &&
                a.address.host() == b.address.host() && a.address != b.address)
                return true;
    return false;
}

std::vector<wire::Multiaddr> ObservedAddresses::to_punch(
    const std::vector<std::uint16_t>& listen_ports) const {
    std::vector<wire::Multiaddr> addresses = mapped();
    if (addresses.empty()) {
        for (const auto& seen : all())
            for (const std::uint16_t port : listen_ports)
                if (const auto guess = wire::Multiaddr::tcp(*seen.host(), port))
                    add_once(addresses, *guess);
    }
    if (addresses.size() > punch_addresses_max) addresses.resize(punch_addresses_max);
    return addresses;
}

}  // namespace dedloc::p2p
