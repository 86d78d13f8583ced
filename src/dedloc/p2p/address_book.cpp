#include "dedloc/p2p/address_book.h"

#include <algorithm>

namespace dedloc::p2p {

bool can_be_dialled(const wire::Multiaddr& address) {
    if (address.is_plain_tcp()) return true;
    const auto relay = address.relay();
    // Over one relay and not over a chain of them; and the relay must be named, to be believed.
    return relay && relay->is_plain_tcp() && relay->peer() &&
           address.without_peer().parts().size() == relay->parts().size() + 1;
}

AddressBook::Entry& AddressBook::entry(const PeerId& peer) {
    if (!peers_.contains(peer) && peers_.size() >= address_book_peers_max) {
        const auto oldest = std::min_element(peers_.begin(), peers_.end(), [](auto& a, auto& b) {
            return a.second.last_use < b.second.last_use;
        });
        peers_.erase(oldest);
    }
    Entry& found = peers_[peer];
    found.last_use = ++uses_;
    return found;
}

void AddressBook::merge(const PeerId& peer,
                        const std::vector<wire::Multiaddr>& first,
                        const std::vector<wire::Multiaddr>& second) {
    std::vector<wire::Multiaddr> merged;
    for (const auto* list : {&first, &second}) {
        for (const auto& address : *list) {
            if (merged.size() >= addresses_per_peer_max || !can_be_dialled(address)) continue;
            if (address.peer() && *address.peer() != peer) continue;
            wire::Multiaddr bare = address.without_peer();
            if (std::find(merged.begin(), merged.end(), bare) == merged.end())
                merged.push_back(std::move(bare));
        }
    }
    if (!merged.empty()) entry(peer).addresses = std::move(merged);
}

void AddressBook::add(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses) {
    merge(peer, addresses, of(peer));
}

void AddressBook::add_hearsay(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses) {
    merge(peer, of(peer), addresses);
}

const std::vector<wire::Multiaddr>& AddressBook::of(const PeerId& peer) const {
    static const std::vector<wire::Multiaddr> none;
    const auto found = peers_.find(peer);
    return found == peers_.end() ? none : found->second.addresses;
}

std::vector<PeerId> AddressBook::peers() const {
    std::vector<PeerId> ids;
    ids.reserve(peers_.size());
    for (const auto& [peer, entry] : peers_) ids.push_back(peer);
    return ids;
}

void AddressBook::worked(const PeerId& peer, const wire::Multiaddr& address) {
    add(peer, std::vector<wire::Multiaddr>(1, address));
}

}  // namespace dedloc::p2p
