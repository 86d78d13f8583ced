// Membership: who is in the run, proved and up to date.
//
// Two peers that meet say hello: each proves that it knows the run secret without sending it, and
// both compare the run's hash; a peer of another run is told the difference field by field. After
// that they push their signed statuses to each other, and each reply brings the other's back: who
// has just ended a step learns at once how far the others are. Statuses of others travel in the
// hello reply, so that a newcomer finds everybody through one, and one of them a second in replies,
// newcomers first, so that two who join at once meet. (Not more: a status is 0.4 KB, and each of
// forty peers at home answers eighty a second.)
//
//   /dedloc/hello/1, …/prove  hello.h
//   /dedloc/status/1       signed status -> {5 signed statuses: its own, perhaps another's}
//   /dedloc/run_file/1     -> canonical TOML
//
// Thread: the network thread. Limits: peers_max (whoever comes beyond it is told so),
// pending_hellos_max.

#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/collab/hello.h"
#include "dedloc/collab/run_file.h"
#include "dedloc/collab/status.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/security/signer.h"

namespace dedloc::collab {

// Answered and not yet proved. Beyond it the oldest of the peer that has most goes; so whoever
// would shut others out needs all the connections that a host may have, and on each a hello within
// every round trip. Some 100 bytes each.
inline constexpr std::size_t pending_hellos_max = 1024;
inline constexpr std::size_t hellos_of_one_max = 16;

inline constexpr const char* status_method = "/dedloc/status/1";
inline constexpr const char* run_file_method = "/dedloc/run_file/1";

struct SignedStatus {
    Bytes payload;
    Bytes signature;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.payload);
        visit(2, self.signature);
    }
};

struct KnownPeer {
    Status status;
    double samples_per_s_most = 0;  // that it ever told
    Bytes signed_status;            // as received, to pass on
    TimePoint status_at;            // when this status came
    TimePoint received;             // when it last said anything itself
    TimePoint first_heard_of;
    TimePoint told_of_another;  // when it was last told the status of another peer
    bool member = false;        // hello succeeded on the connection that is open
    bool was_member = false;    // on this one, or an earlier
};

class Membership {
  public:
    struct Callbacks {
        std::function<Status()> own_status;
        std::function<void(const Status& before, const Status& now)> on_status;
        std::function<void(const Status&)> on_joined;
        std::function<void(const Status&, bool left_in_order)> on_lost;
    };

    Membership(runtime::Node node,
               p2p::Host& host,
               const security::Signer& signer,
               const security::Verifier& verifier,
               const RunFile& run,
               Bytes secret,
               Duration status_interval,
               std::size_t peers_most,
               Callbacks callbacks);
    ~Membership();

    void start();
    Task<void> stop();

    // Dials a multiaddr (with or without /p2p/) and says hello.
    // Errors: as Host::dial; denied (wrong secret); conflict (another run: the difference);
    // overloaded: it knows as many peers as it may, or we do.
    Task<Result<PeerId>> meet(std::string multiaddr, TimePoint deadline);
    Task<Result<void>> hello(PeerId peer, TimePoint deadline);

    bool is_member(const PeerId& peer) const;
    // Members heard of lately, by PeerId.
    std::vector<const KnownPeer*> live() const;
    const KnownPeer* find(const PeerId& peer) const;
    // Addresses worth giving to a newcomer, with /p2p/: a few of our own, then of others a direct
    // one and a relayed one, first of relays, which stay, and of those who need none.
    std::vector<std::string> known_addresses(std::size_t peers_told) const;

    // The newest one that was signed, if it is hardly old: nobody tells two from another.
    const Bytes& own_signed_status();

    // Something others should know at once: pushes our status to all members.
    void push_now();
    // Tells everybody that we leave; waits a little for the answers.
    Task<void> say_goodbye();

  private:
    struct Pending {
        Bytes nonce_ours;
        Bytes nonce_theirs;
        Digest run;  // that it named already, perhaps none
        TimePoint at;
    };

    Task<Result<Bytes>> on_hello(PeerId from, Bytes request);
    Task<Result<Bytes>> on_prove(PeerId from, Bytes request);
    void forget_a_hello();
    void forget_oldest(std::map<PeerId, std::deque<Pending>>::iterator of_peer);
    std::optional<Pending> take_pending(const PeerId& peer, const Bytes& nonce_ours);
    Task<Result<Bytes>> on_status(PeerId from, Bytes request);
    Task<Result<Bytes>> on_run_file(PeerId from, Bytes request);
    Task<void> push_loop();
    Task<void> push_to(PeerId peer);
    Task<void> meet_again(PeerId peer);
    Duration until_met_again(const KnownPeer& peer) const;
    void push_to_all();
    void drop_stale();
    void meet_unmet();
    bool make_room_for(const PeerId& peer, Duration silent_for);
    bool make_room_for_member(const PeerId& peer);
    void admit(const PeerId& peer);
    void set_member(KnownPeer& known, bool member);
    Ok take_status(ByteView signed_status, const PeerId* from);
    bool is_old(const KnownPeer& known,
                std::uint64_t incarnation,
                std::uint64_t sequence,
                bool from_itself) const;
    const Bytes* status_to_tell(const PeerId& asker);
    void take_statuses(ByteView reply, const PeerId& from);
    Error different_run(const PeerId& peer, std::string_view their_run_file) const;
    bool fresh(const KnownPeer& peer) const;

    runtime::Node node_;
    p2p::Host& host_;
    const security::Signer& signer_;
    const security::Verifier& verifier_;
    RunFile run_;
    Digest run_hash_;
    Bytes secret_;
    Duration status_interval_;
    std::size_t peers_most_;
    Callbacks callbacks_;
    base::Random random_;
    std::map<PeerId, KnownPeer> peers_;
    // Oldest first: a peer may say several hellos at once.
    std::map<PeerId, std::deque<Pending>> pending_;
    std::size_t pending_count_ = 0;        // of all peers together
    std::map<PeerId, bool> pushing_;       // true: something newer waits to be pushed
    std::map<PeerId, TimePoint> meeting_;  // next try
    Bytes own_status_;                     // signed
    TimePoint own_status_at_;
    TimePoint next_push_;
    runtime::Event wake_;
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::collab
