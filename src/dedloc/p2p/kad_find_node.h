// Finding peers by id through libp2p's own Kademlia: client and server of FIND_NODE
// ("/ipfs/kad/1.0.0"). go-libp2p peers, hivemind's daemon among them, look each other up with it,
// and take nobody into their tables who does not answer for itself.
//
// The server answers from the address book: the target itself if an address of it is known, those
// who speak the protocol and are nearest to it, then other peers that are known; at most 20, in
// kad_sent_bytes_max. Whoever asks from the Internet is told public addresses only; of a peer that
// is protected (a member of a run) nobody else is told others.
// The client asks the nearest of the connected peers that speak it, and those they name, nearest
// first, kad_queries_at_once_max at a time, until somebody names the target with an address. What
// it hears goes into the address book as hearsay: a false address costs a dial that fails.
//
// Source: libp2p specs/kad-dht. Limits: limits.h. Thread: the network thread.
// Cost: an answer compares the keys of the book: kad_answer_cost. A stranger waits for its share
// before each (stranger_budget.h).
// Errors: not_found (nobody knows it), timeout, peer_gone.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dedloc/p2p/address_book.h"
#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/p2p/swarm.h"
#include "dedloc/wire/kad_messages.h"

namespace dedloc::p2p {

class PeerFinder {
  public:
    using OwnAddresses = std::function<std::vector<wire::Multiaddr>()>;

    using IsPublic = std::function<bool(std::string_view ip)>;

    PeerFinder(Swarm& swarm,
               PeerId self,
               OwnAddresses own_addresses,
               runtime::Clock& clock,
               IsPublic is_public = is_public_address)
        : swarm_(swarm),
          self_(std::move(self)),
          own_addresses_(std::move(own_addresses)),
          clock_(clock),
          is_public_(std::move(is_public)) {}

    // Answers requests on one stream until the other side ends it, is idle, or asks too much.
    Task<void> serve(std::shared_ptr<transport::Stream> stream);
    // Answers whoever asks for `key`.
    wire::KadMessage answer(const wire::KadMessage& request, const PeerId& asker);

    // Looks for addresses of `peer` and puts them into the address book. A peer that was not found
    // is not looked for again for a while.
    Task<Result<void>> find(PeerId peer, TimePoint deadline);
    // Somebody is there to be asked, and `peer` was not looked for in vain just now.
    bool may_find(const PeerId& peer) const;

  private:
    struct Search;
    using SearchPtr = std::shared_ptr<Search>;

    const Digest& key_of(const PeerId& peer);
    std::vector<PeerId> nearest(const Digest& target, const PeerId& asker);
    bool is_neighbour(const PeerId& asker) const;
    bool may_tell(const wire::Multiaddr& address, const PeerId& of, const PeerId& asker) const;
    wire::KadPeer describe(const PeerId& peer,
                           const PeerId& asker,
                           std::size_t addresses_max) const;
    bool is_server(const PeerId& peer) const;
    std::vector<PeerId> servers() const;
    Task<void> ask_nearest(SearchPtr search);
    Task<Result<wire::KadMessage>> ask(PeerId server, Bytes key, TimePoint deadline);
    void receive_answer(Search& search, const wire::KadMessage& message);

    Swarm& swarm_;
    PeerId self_;
    OwnAddresses own_addresses_;
    runtime::Clock& clock_;
    IsPublic is_public_;
    std::map<PeerId, Digest> keys_;       // hashes of ids, for those in the book
    std::map<PeerId, TimePoint> missed_;  // not found: not again before
};

}  // namespace dedloc::p2p
