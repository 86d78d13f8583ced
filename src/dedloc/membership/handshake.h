// Handshake: two peers that meet prove to each other that they may take part in the run, and tell
// whom they know.
//
// The two peers agree on a version of the protocol (protocol_range.h).
// The Authorizer proves that a peer may take part. Both compare the run's hash then: a
// peer of another run is told the difference, field by field; a stranger learns nothing of the run.
// The statuses of others travel in the
// reply, so that a newcomer finds everybody through one peer.
//
// Thread: the network thread. Messages: hello_message.h. Limit: pending_hellos_max.

#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "dedloc/membership/authorizer.h"
#include "dedloc/membership/hello_message.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/membership/status_gossip.h"
#include "dedloc/run/run_file.h"

namespace dedloc::membership {

// Answered and not yet proved. Beyond it the oldest of the peer that has most goes; so a stranger
// that would shut others out needs all the connections that a host may have, and on each a hello
// within every round trip. Some 100 bytes each.
inline constexpr std::size_t pending_hellos_max = 1024;
inline constexpr std::size_t hellos_of_one_max = 16;

struct Greeting {
    HelloMessage prove;       // what the callee must be sent to prove_method
    std::uint64_t protocol;   // that both use
    ProtocolRange protocols;  // the callee's
};

// The caller's first half, with a fresh nonce, once `peer` has shown that it may take part.
// `authorizer` outlives the call.
Task<Result<Greeting>> say_hello(
    p2p::Host& host, PeerId peer, Authorizer& authorizer, Bytes nonce, TimePoint deadline);

class Handshake {
  public:
    struct Callbacks {
        // A peer has proved itself, on either side of the meeting.
        std::function<void(const Status&)> on_joined;
        // We have greeted one, and those that it told of can be met.
        std::function<void()> on_greeted;
        // A peer that met us may not take part, and was told why.
        std::function<void(const PeerId&, const Error&)> on_refused;
        // A sentence for one that orders keep out of the run; empty: it may take part.
        std::function<std::string(const PeerId&)> why_kept_out;
    };

    Handshake(runtime::Clock& clock,
              p2p::Host& host,
              const run::RunFile& run,
              Authorizer& authorizer,
              PeerTable& table,
              StatusGossip& gossip,
              Random& random,
              Callbacks callbacks);

    // Errors: denied (wrong secret, kept out by an order); conflict (another run: the difference;
    // or no version of the protocol that both speak);
    // overloaded: it knows as many peers as it may, or we do.
    Task<Result<void>> greet(PeerId peer, TimePoint deadline);

    Task<Result<Bytes>> on_hello(PeerId from, Bytes request);
    Task<Result<Bytes>> on_prove(PeerId from, Bytes request);
    // Handshakes that were answered and not proved in time.
    void forget_expired();

  private:
    struct Pending {
        Bytes nonce_ours;
        Bytes nonce_theirs;
        Digest run;  // that it named already, perhaps none
        TimePoint at;
    };
    using PendingOfPeer = std::map<PeerId, std::deque<Pending>>::iterator;

    void remember(const PeerId& from, Pending hello);
    void forget_a_hello();
    void forget_oldest(PendingOfPeer of_peer);
    std::optional<Pending> take_pending(const PeerId& peer, const Bytes& nonce_ours);
    Error different_run(const PeerId& peer, std::string_view their_run_file) const;
    void admit(const PeerId& peer, std::uint64_t protocol);
    Ok check_orders(const PeerId& peer) const;

    runtime::Clock& clock_;
    p2p::Host& host_;
    const run::RunFile& run_;
    Digest run_hash_;
    Authorizer& authorizer_;
    PeerTable& table_;
    StatusGossip& gossip_;
    Random& random_;
    Callbacks callbacks_;
    // Oldest first: a peer may say several hellos at once.
    std::map<PeerId, std::deque<Pending>> pending_;
    std::size_t pending_count_ = 0;  // of all peers together
};

}  // namespace dedloc::membership
