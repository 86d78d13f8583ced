// Dialler: reaches peers at their addresses.
//
// All known addresses of a peer are started one after another every dial_stagger (at once when the
// one before has failed); the first that ends in an authenticated connection wins. After a failure
// the peer is not dialled again for dial_backoff_min, doubling to dial_backoff_max; new addresses
// end the wait. Addresses over relays are tried after direct ones.
//
// Thread: the network thread. Limits: limits.h. Errors: timeout, peer_gone, overloaded.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/p2p/address_book.h"
#include "dedloc/p2p/connection_table.h"

namespace dedloc::p2p {

class Dialler {
  public:
    Dialler(SwarmParts& parts, const ConnectionTable& table) : parts_(parts), table_(table) {}

    // The peer could not be dialled, or over a relay only: perhaps it cannot dial us, either.
    std::function<void(const PeerId&)> on_not_reached;

    AddressBook& addresses() { return addresses_; }
    const AddressBook& addresses() const { return addresses_; }
    void forget_backoff(const PeerId& peer);
    // New addresses of a peer that is being dialled are tried too.
    void extend(const PeerId& peer);

    Task<Result<void>> connect(PeerId peer, TimePoint deadline);
    Task<Result<PeerId>> dial(wire::Multiaddr address, TimePoint deadline);
    // All at once, though there is a relayed connection; the first that is the peer counts. `path`:
    // what that connection is then.
    Task<Result<void>> dial_direct(PeerId peer,
                                   std::vector<wire::Multiaddr> addresses,
                                   Path path,
                                   TimePoint deadline);
    // Does that peer answer there? Dialled as a stranger, and hung up on.
    Task<Result<void>> dial_back(wire::Multiaddr address, PeerId peer, TimePoint deadline);

    // A connection to this peer is there: a dial to it need not be waited for any longer.
    void is_connected(const PeerId& peer);
    // Every dial ends with this.
    void stop(const Error& reason);

  private:
    struct Dial;
    using DialPtr = std::shared_ptr<Dial>;
    struct Backoff {
        Duration wait{0};
        TimePoint until;
        Error last{ErrorKind::peer_gone, ""};
    };
    struct Reached {
        transport::SecureConnection secured;
        Origin origin;
    };

    Result<DialPtr> begin(const PeerId& peer);
    Task<void> attempt(DialPtr dial, std::size_t index);
    void attempt_failed(const DialPtr& dial, std::size_t index, const Error& error);
    // `by_relay`: attempts at direct addresses go on.
    void finish(const DialPtr& dial, Ok outcome, bool by_relay = false);
    Task<Result<PeerId>> dial_unknown(wire::Multiaddr address, TimePoint deadline);
    Task<void> dial_one(DialPtr dial, wire::Multiaddr address, Path path, TimePoint deadline);

    // reach.cpp
    Task<Result<Reached>> reach(wire::Multiaddr address, PeerId expected, TimePoint deadline);
    Task<Result<Reached>> reach_plain(wire::Multiaddr address, PeerId expected, TimePoint deadline);
    Task<Result<Reached>> reach_relayed(wire::Multiaddr address,
                                        PeerId expected,
                                        TimePoint deadline);
    Task<Result<ConnectionPtr>> connect_to_relay(wire::Multiaddr address, TimePoint deadline);

    SwarmParts& parts_;
    const ConnectionTable& table_;
    AddressBook addresses_;
    std::map<PeerId, DialPtr> dials_;
    std::map<PeerId, Backoff> backoffs_;
};

}  // namespace dedloc::p2p
