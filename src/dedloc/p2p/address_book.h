// Where peers may be dialled: the most recently used addresses of the most recently used peers.
//
// Thread: one. Cost: map look-ups; adding a peer to a full book is linear in the book.

#pragma once
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
    // What a peer says of itself: tried after what is known.
    void add_hearsay(const PeerId& peer, const std::vector<wire::Multiaddr>& addresses);
    const std::vector<wire::Multiaddr>& of(const PeerId& peer) const;  // best first
    void worked(const PeerId& peer, const wire::Multiaddr& address);   // to the front
    std::vector<PeerId> peers() const;
    std::size_t peers_count() const { return peers_.size(); }

  private:
    struct Entry {
        std::vector<wire::Multiaddr> addresses;
        std::uint64_t last_use = 0;
    };
    Entry& entry(const PeerId& peer);
    void merge(const PeerId& peer,
               const std::vector<wire::Multiaddr>& first,
               const std::vector<wire::Multiaddr>& second);

    std::map<PeerId, Entry> peers_;
    std::uint64_t uses_ = 0;
};

}  // namespace dedloc::p2p
