// Where peers may be dialled: the most recently used addresses of the most recently used peers.
//
// Thread: one. Cost: map look-ups; adding a peer to a full book is linear in the book.

#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

// Plain TCP, or over one relay: "/ip4/…/tcp/…/p2p/<relay>/p2p-circuit", with or without a last
// /p2p.
bool can_be_dialled(const wire::Multiaddr& address);

class AddressBook {
  public:
    // Only those that can be dialled are kept, without the peer's id; new ones are tried first.
    void add(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses);
    // A peer says this of itself, or another of it: tried after what is known, bounded in bytes.
    void add_hearsay(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses);
    // Drops what was only hearsay; a peer without other addresses is not known any more.
    void forget_hearsay(const PeerId& peer);
    const std::vector<wire::Multiaddr>& of(const PeerId& peer) const;  // best first
    void worked(const PeerId& peer, const wire::Multiaddr& address);   // to the front
    std::vector<PeerId> peers() const;
    std::size_t peers_count() const { return peers_.size(); }

  private:
    struct Entry {
        std::vector<wire::Multiaddr> addresses;
        std::size_t proved = 0;  // so many of them, the first ones, are more than hearsay
        std::uint64_t last_use = 0;
    };
    using Entries = std::map<PeerId, Entry>;
    void make_room_for(const PeerId& peer, bool as_hearsay);
    void erase(Entries::iterator entry);
    void merge(const PeerId& peer,
               const std::vector<wire::Multiaddr>& proved,
               const std::vector<wire::Multiaddr>& hearsay);

    Entries peers_;
    std::size_t hearsay_peers_ = 0;  // with proved == 0
    std::uint64_t uses_ = 0;
};

}  // namespace dedloc::p2p
