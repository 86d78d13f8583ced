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

void AddressBook::erase(Entries::iterator entry) {
    if (entry->second.proved == 0) --hearsay_peers_;
    peers_.erase(entry);
}

// The one that was unused longest goes: of those who are known by hearsay alone, if there is one.
void AddressBook::make_room_for(const PeerId& peer, bool as_hearsay) {
    if (peers_.contains(peer)) return;
    const bool hearsay_is_full = as_hearsay && hearsay_peers_ >= hearsay_peers_max;
    if (!hearsay_is_full && peers_.size() < address_book_peers_max) return;
    const auto goes_before = [](const auto& a, const auto& b) {
        const bool a_is_proved = a.second.proved > 0;
        const bool b_is_proved = b.second.proved > 0;
        if (a_is_proved != b_is_proved) return b_is_proved;
        return a.second.last_use < b.second.last_use;
    };
    erase(std::min_element(peers_.begin(), peers_.end(), goes_before));
}

// The new ones first, then what was known: of both kinds those that are proved before hearsay.
void AddressBook::merge(const PeerId& peer,
                        const std::vector<wire::Multiaddr>& proved,
                        const std::vector<wire::Multiaddr>& hearsay) {
    const auto known = peers_.find(peer);
    const Entry before = known == peers_.end() ? Entry{} : known->second;
    Entry merged;
    std::size_t hearsay_bytes = 0;
    const auto add = [&](const wire::Multiaddr& address, bool is_proved) {
        if (merged.addresses.size() >= addresses_per_peer_max || !can_be_dialled(address)) return;
        if (address.peer() && *address.peer() != peer) return;
        wire::Multiaddr bare = address.without_peer();
        if (std::ranges::find(merged.addresses, bare) != merged.addresses.end()) return;
        const std::size_t bytes = is_proved ? 0 : bare.bytes().size();
        if (hearsay_bytes + bytes > hearsay_bytes_per_peer_max) return;
        hearsay_bytes += bytes;
        merged.proved += is_proved ? 1 : 0;
        merged.addresses.push_back(std::move(bare));
    };
    for (const auto& address : proved) add(address, true);
    for (std::size_t i = 0; i < before.proved; ++i) add(before.addresses[i], true);
    for (std::size_t i = before.proved; i < before.addresses.size(); ++i)
        add(before.addresses[i], false);
    for (const auto& address : hearsay) add(address, false);
    if (merged.addresses.empty()) return;
    make_room_for(peer, merged.proved == 0);
    if (const auto old = peers_.find(peer); old != peers_.end()) erase(old);
    merged.last_use = ++uses_;
    if (merged.proved == 0) ++hearsay_peers_;
    peers_.emplace(peer, std::move(merged));
}

void AddressBook::add(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses) {
    merge(peer, addresses, {});
}

void AddressBook::add_hearsay(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses) {
    merge(peer, {}, addresses);
}

void AddressBook::forget_hearsay(const PeerId& peer) {
    const auto known = peers_.find(peer);
    if (known == peers_.end()) return;
    Entry& entry = known->second;
    if (entry.proved == 0)
        erase(known);
    else
        entry.addresses.resize(entry.proved);
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
