// Swarm: the connections of one host. Listens, dials by id from known addresses, keeps one
// connection between two peers, notices when they come and go.
//
// Dialling: all known addresses of a peer, started one after another every dial_stagger (at once
// when the one before has failed); the first that ends in an authenticated connection wins. After
// a failure the peer is not dialled again for dial_backoff_min, doubling to dial_backoff_max; new
// addresses end the wait.
//
// Addresses over relays are tried after direct ones, and a relayed connection gives way to a direct
// one as a twin does: new streams go to the direct one, those that are open end where they are.
//
// Two peers that dial each other at the same time get two connections. Both sides prefer the one
// whose dialler has the smaller id (of two by the same dialler: the newer), once it has shown a
// sign of life; the other takes no new streams, finishes those it has, and closes. Nothing that
// was begun on it is lost.
//
// Thread: the network thread. Limits: limits.h. Errors: timeout, peer_gone, overloaded.

#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/p2p/address_book.h"
#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/stranger_budget.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/transport/inbound_handshakes.h"
#include "dedloc/transport/lane_bundle.h"

namespace dedloc::p2p {

class Swarm {
  public:
    struct Options {
        runtime::Executor executor;
        runtime::Clock& clock;
        runtime::Network& network;
        security::Identity identity;
        std::shared_ptr<const transport::UpgradeContext> upgrades;
        Duration keep_alive_interval;
        Duration keep_alive_answer_max;
        // Connections to all peers together, each lane of a bundle counted; when they are there, a
        // new one makes the least missed go.
        std::size_t connections_max = p2p::connections_max;
        // Beside those that were protected: relays in use, peers that have their place here.
        std::function<bool(const PeerId&)> is_needed{};
        // Whether strangers have a budget, and few connections and bytes (stranger_budget.h).
        bool limits_strangers = true;
        // Memory that this process may have; 0: not known.
        std::uint64_t memory_bytes = 0;
        // Shall this host be dialled from our listen port, so that it sees that port's NAT mapping?
        std::function<bool(const std::string& host)> from_listen_port{};
    };
    using ConnectionPtr = std::shared_ptr<PeerConnection>;

    Swarm(Options options, runtime::Scope& scope);
    ~Swarm();

    // Set before anything is dialled or listened on.
    std::function<void(ConnectionPtr, std::shared_ptr<transport::YamuxStream>)> on_stream;
    std::function<void(ConnectionPtr)> on_connection;            // every new one
    std::function<void(const PeerId&, bool connected)> on_peer;  // the first, the last of a peer
    // It could not be dialled, or over a relay only: perhaps it cannot dial us, either.
    std::function<void(const PeerId&)> on_not_reached;

    // Errors: bad_input, local_fault.
    Ok listen(const std::vector<std::string>& multiaddrs);
    std::vector<runtime::SocketAddress> listen_addresses() const;

    AddressBook& addresses() { return addresses_; }
    const AddressBook& addresses() const { return addresses_; }
    void forget_backoff(const PeerId& peer);
    // New addresses of a peer that is being dialled are tried too.
    void extend_dial(const PeerId& peer);

    Task<Result<void>> connect(PeerId peer, TimePoint deadline);
    Task<Result<PeerId>> dial(wire::Multiaddr address, TimePoint deadline);
    // `is_bulk`: on lanes where there are some.
    Task<Result<std::unique_ptr<transport::Stream>>> open_stream(PeerId peer,
                                                                 TimePoint deadline,
                                                                 bool is_bulk = false);

    // The connection new streams belong on; null when there is none.
    ConnectionPtr best(const PeerId& peer) const;
    // The same among those that are not relayed.
    ConnectionPtr direct(const PeerId& peer) const;

    // --- lanes (swarm_lanes.cpp) ---
    // The bundle of lanes where there is one; null: bulk goes the way of everything.
    ConnectionPtr bulk(const PeerId& peer) const;
    std::size_t lanes_to(const PeerId& peer) const;

    // --- relays and NATs (swarm_nat.cpp) ---
    // Begins to upgrade a circuit that `caller` opened to us; the relay's word for who it is must
    // be true. overloaded: there is no room.
    Ok take_circuit(std::shared_ptr<transport::Stream> stream, PeerId caller, PeerId relay);
    // All at once, though there is a relayed connection; the first that is the peer counts. `path`:
    // what that connection is then.
    Task<Result<void>> dial_direct(PeerId peer,
                                   std::vector<wire::Multiaddr> addresses,
                                   Path path,
                                   TimePoint deadline);
    // Dials from the listen port again and again until both sides' packets meet (TCP simultaneous
    // open), or the listener hears of one of these addresses. Both sides have agreed who is client.
    Task<Result<void>> punch(PeerId peer,
                             std::vector<wire::Multiaddr> addresses,
                             bool as_client,
                             TimePoint deadline);
    // Does that peer answer there? Dialled as a stranger, and hung up on.
    Task<Result<void>> dial_back(wire::Multiaddr address, PeerId peer, TimePoint deadline);

    // --- which connections may go (connection_trimmer.cpp) ---
    // Neither closed when idle nor to make room. Whoever protects says when that is over.
    void protect(const PeerId& peer, bool needed);
    bool is_protected(const PeerId& peer) const { return protected_.contains(peer); }
    bool is_needed(const PeerId& peer) const;

    // --- what strangers may cost (swarm_strangers.cpp) ---
    bool is_stranger(const PeerId& peer) const;
    // It is none, as long as it is connected.
    void vouch(const PeerId& peer);
    bool is_vouched_for(const PeerId& peer) const { return vouched_for_.contains(peer); }
    // Counts what a stranger cost; nothing for others.
    void spend(const PeerId& peer, const StrangerBudget::Cost& cost);
    // Waits while a stranger is beyond its share, for stranger_pause_max at most.
    Task<void> strangers_turn(PeerId peer);

    std::vector<PeerId> peers() const;
    std::vector<ConnectionPtr> connections() const;
    void disconnect(const PeerId& peer, Error reason);
    // A call was not answered in time: its connections must show soon that they are alive.
    void doubt(const PeerId& peer);
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

    struct Punch;
    using PunchPtr = std::shared_ptr<Punch>;
    struct Reached {
        transport::SecureConnection secured;
        Origin origin;
    };

    Task<void> accept_loop(std::shared_ptr<runtime::Listener> listener);
    using SeatPtr = std::unique_ptr<transport::InboundHandshakes::Seat>;
    SeatPtr seat_for(const std::string& ip);
    // `handshake` holds the seat of that number.
    void start_handshake(std::string name, std::uint64_t seat, Task<void> handshake);
    TimePoint last_use(PeerConnection& connection) const;
    std::vector<ConnectionPtr> dispensable(Duration unused_for) const;
    void let_go(const ConnectionPtr& one);
    void let_least_missed_go();
    // At the cost of those that nobody used for so long. False: there are too few, and none went.
    bool make_room_for(std::size_t connections, Duration unused_for = Duration(0));
    Task<void> close_idle_loop();
    static std::string address_behind(const PeerConnection& connection);
    StrangerBudget::Asker asker(const PeerId& peer) const;
    Task<void> wait_at_the_door(std::string address);
    void limit_memory();
    std::size_t stranger_connections_max() const;
    void make_room_for_stranger(const std::string& address);
    void give_back_memory();
    Task<void> take_inbound(std::unique_ptr<runtime::Connection> raw, SeatPtr seat);
    Task<void> upgrade_circuit(std::shared_ptr<transport::Stream> stream,
                               PeerId caller,
                               PeerId relay,
                               SeatPtr seat);
    Result<ConnectionPtr> add_circuit(Result<transport::SecureConnection> secured,
                                      const PeerId& caller,
                                      const PeerId& relay);
    Result<DialPtr> start_dial(const PeerId& peer);
    Task<void> attempt(DialPtr dial, std::size_t index);
    void attempt_failed(const DialPtr& dial, std::size_t index, const Error& error);
    // `by_relay`: attempts at direct addresses go on.
    void finish_dial(const DialPtr& dial, Ok outcome, bool by_relay = false);
    Task<Result<Reached>> reach(wire::Multiaddr address, PeerId expected, TimePoint deadline);
    Task<Result<Reached>> reach_plain(wire::Multiaddr address, PeerId expected, TimePoint deadline);
    Task<Result<Reached>> reach_relayed(wire::Multiaddr address,
                                        PeerId expected,
                                        TimePoint deadline);
    Task<Result<ConnectionPtr>> connect_to_relay(wire::Multiaddr address, TimePoint deadline);
    std::uint16_t listen_port_for(const runtime::SocketAddress& target) const;
    Task<void> dial_one(std::shared_ptr<Dial> dial,
                        wire::Multiaddr address,
                        Path path,
                        TimePoint deadline);
    PunchPtr punch_that_expects(const runtime::SocketAddress& remote) const;
    Task<void> punch_at(PunchPtr punch, runtime::SocketAddress target);
    Task<void> punch_accepted(PunchPtr punch,
                              std::unique_ptr<runtime::Connection> raw,
                              SeatPtr seat);
    Task<Result<void>> finish_punch(PunchPtr punch, std::unique_ptr<runtime::Connection> raw);
    Task<Result<PeerId>> dial_unknown(wire::Multiaddr address, TimePoint deadline);
    Result<ConnectionPtr> add(transport::SecureConnection secured, Origin origin);
    ConnectionPtr make_connection(transport::SecureConnection secured, Origin origin);

    // The bundles to one peer: the one for new streams, and those that end.
    struct Bundles {
        ConnectionPtr current;
        std::vector<ConnectionPtr> all;
        bool opening = false;
        TimePoint not_before;
    };
    struct Bundling;
    class BundlingWait;
    void consider_lanes(const ConnectionPtr& busy);
    Task<void> open_lane(runtime::SocketAddress address,
                         transport::LaneGreeting greeting,
                         std::shared_ptr<Bundling> bundling);
    Task<void> open_bundle(ConnectionPtr main, std::size_t count);
    Task<void> take_lane(transport::SecureConnection accepted);
    bool add_bundle(transport::SecureConnection secured, transport::LaneBundle* bundle);
    void remove_bundle(const PeerConnection* connection);
    void close_bundles(const PeerId& peer, const Error& reason);
    ConnectionPtr choose(const PeerId& peer, bool direct_only) const;
    void remove(const PeerConnection* connection);
    bool is_preferred(const PeerConnection& a, const PeerConnection& b) const;
    void settle_duplicates(const PeerId& peer);
    Task<void> drain(ConnectionPtr loser, ConnectionPtr winner);

    Options options_;
    runtime::Scope& scope_;
    std::shared_ptr<transport::StreamMemory> stream_memory_ =
        std::make_shared<transport::StreamMemory>();
    StrangerBudget budget_;
    std::size_t strangers_gone_ = 0;  // since memory was given back
    std::shared_ptr<transport::LaneMemory> lane_memory_ = std::make_shared<transport::LaneMemory>();
    AddressBook addresses_;
    std::vector<std::shared_ptr<runtime::Listener>> listeners_;
    std::map<PeerId, std::vector<ConnectionPtr>> peers_;
    std::size_t connections_count_ = 0;
    std::set<PeerId> protected_;
    std::set<PeerId> vouched_for_;
    transport::InboundHandshakes strangers_;
    std::map<PeerId, DialPtr> dials_;
    std::map<PeerId, Backoff> backoffs_;
    std::vector<PunchPtr> punches_;
    std::map<PeerId, Bundles> bundles_;
    std::map<std::array<std::uint8_t, 16>, std::shared_ptr<Bundling>> bundlings_;
    bool closing_ = false;
};

}  // namespace dedloc::p2p
