// Swarm: the connections of one host. Listens, dials by id from known addresses, keeps one
// connection between two peers, notices when they come and go.
//
// Dialling: all known addresses of a peer, started one after another every dial_stagger (at once
// when the one before has failed); the first that ends in an authenticated connection wins. After
// a failure the peer is not dialled again for dial_backoff_min, doubling to dial_backoff_max; new
// addresses end the wait.
//
// Two peers that dial each other at the same time get two connections. Both sides prefer the one
// whose dialler has the smaller id (of two by the same dialler: the newer), once it has shown a
// sign of life; the other takes no new streams, finishes those it has, and closes. Nothing that
// was begun on it is lost.
//
// Thread: the network thread. Limits: limits.h. Errors: timeout, peer_gone, overloaded.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/p2p/address_book.h"
#include "dedloc/p2p/connection.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::p2p {

class Swarm {
  public:
    struct Options {
        runtime::Executor executor;
        runtime::Clock& clock;
        runtime::Network& network;
        security::Identity identity;
        Duration keep_alive_interval;
        Duration keep_alive_answer_max;
    };
    using ConnectionPtr = std::shared_ptr<PeerConnection>;

    Swarm(Options options, runtime::Scope& scope);
    ~Swarm();

    // Set before anything is dialled or listened on.
    std::function<void(ConnectionPtr, std::shared_ptr<YamuxStream>)> on_stream;
    std::function<void(ConnectionPtr)> on_connection;            // every new one
    std::function<void(const PeerId&, bool connected)> on_peer;  // the first, the last of a peer

    // Errors: bad_input, local_fault.
    Ok listen(const std::vector<std::string>& multiaddrs);
    std::vector<runtime::SocketAddress> listen_addresses() const;

    AddressBook& addresses() { return addresses_; }
    const AddressBook& addresses() const { return addresses_; }
    void forget_backoff(const PeerId& peer);

    Task<Result<void>> connect(PeerId peer, TimePoint deadline);
    Task<Result<PeerId>> dial(wire::Multiaddr address, TimePoint deadline);
    Task<Result<std::unique_ptr<Stream>>> open_stream(PeerId peer, TimePoint deadline);

    // The connection new streams belong on; null when there is none.
    ConnectionPtr best(const PeerId& peer) const;
    std::vector<PeerId> peers() const;
    std::vector<ConnectionPtr> connections() const;
    void disconnect(const PeerId& peer, Error reason);
    // Refuses what is new, closes the listeners, says good-bye, closes everything.
    Task<void> close_all();

  private:
    struct Dial;
    struct Backoff {
        Duration wait{0};
        TimePoint until;
        Error last{ErrorKind::peer_gone, ""};
    };
    using DialPtr = std::shared_ptr<Dial>;

    Task<void> accept_loop(std::shared_ptr<runtime::Listener> listener);
    Task<void> take_inbound(std::unique_ptr<runtime::Connection> raw);
    Result<DialPtr> start_dial(const PeerId& peer);
    Task<void> attempt(DialPtr dial, std::size_t index);
    void attempt_failed(const DialPtr& dial, std::size_t index, const Error& error);
    void finish_dial(const DialPtr& dial, Ok outcome);
    Task<Result<SecureConnection>> reach(wire::Multiaddr address,
                                         PeerId expected,
                                         TimePoint deadline);
    Task<Result<PeerId>> dial_unknown(wire::Multiaddr address, TimePoint deadline);
    Result<ConnectionPtr> add(SecureConnection secured);
    void remove(const PeerConnection* connection);
    bool is_preferred(const PeerConnection& a, const PeerConnection& b) const;
    void settle_duplicates(const PeerId& peer);
    Task<void> drain(ConnectionPtr loser, ConnectionPtr winner);

    Options options_;
    runtime::Scope& scope_;
    std::shared_ptr<const security::TlsContext> tls_;
    std::shared_ptr<UnreadBudget> budget_ = std::make_shared<UnreadBudget>();
    AddressBook addresses_;
    std::vector<std::shared_ptr<runtime::Listener>> listeners_;
    std::map<PeerId, std::vector<ConnectionPtr>> peers_;
    std::size_t connections_count_ = 0;
    std::size_t handshakes_inbound_ = 0;
    std::map<PeerId, DialPtr> dials_;
    std::map<PeerId, Backoff> backoffs_;
    bool closing_ = false;
};

}  // namespace dedloc::p2p
