// StatusGossip: tells members how this peer is doing, and hears how they are.
//
// Peers push their signed statuses to each other, and each reply brings the other's back: a peer
// that has just ended a step learns at once how far the others are. A reply is empty where our own
// push has told the same a moment before, or does so now: members that end a step together push to
// each other at once, and every status went over a line twice. (Not long before: by samples that
// are told late a batch ends later at one peer than at another.) Now and then the status of
// somebody else comes in replies: newcomers' once a second, so that two who join at once meet,
// others' every two. (Not more: a status is 0.4 KB, and each of forty peers at home answers eighty
// a second.)
//
// Thread: the network thread. Messages: hello_message.h.

#pragma once
#include <functional>
#include <map>
#include <optional>

#include "dedloc/base/fields.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/security/signer.h"

namespace dedloc::membership {

struct SignedStatus {
    Bytes payload;
    Bytes signature;
    DEDLOC_FIELDS(payload, signature)
};

class StatusGossip {
  public:
    struct Callbacks {
        std::function<Status()> own_status;
        // Called for a member: what it said before, and what it says now.
        std::function<void(const Status& before, const Status& now)> on_status;
        // A member does not know us any more: it was started again, or lost the connection.
        std::function<void(const PeerId&)> on_forgotten_by;
        // A member says that our key is used by another process as well.
        std::function<void(const Error&)> on_key_used_twice = [](const Error&) {};
    };

    // Tasks run in `scope`, which ends before this. `interval`: between two pushes, about.
    StatusGossip(runtime::Node node,
                 p2p::Host& host,
                 const security::Signer& signer,
                 const security::Verifier& verifier,
                 PeerTable& table,
                 Random& random,
                 runtime::Scope& scope,
                 Duration interval,
                 Callbacks callbacks);

    // The newest one that was signed, if it is hardly old: nobody tells two from another.
    const Bytes& own_signed_status();
    // Believes a status that came from the peer itself (`from`) or that another one told (null).
    // Errors: peer_broke_protocol.
    Ok take(ByteView signed_status, const PeerId* from);
    // Answers a member's push with our status, and now and then another's.
    Task<Result<Bytes>> on_push(PeerId from, Bytes request);
    // Pushes to all members. One push at a time to each; what became news meanwhile follows at
    // once, and only the newest.
    void push_to_all();
    // Two processes seem to have this peer's key; each is told when it says something. None: no.
    std::optional<Error> key_used_twice(const PeerId& peer) const;
    bool is_pushing() const { return push_is_due_ || !pushing_.empty(); }

  private:
    void find_a_second(KnownPeer& known, std::uint64_t sequence) const;
    Task<void> push_soon();
    void push_to_each();
    Task<void> push_to(PeerId peer);
    bool is_old(const KnownPeer& known,
                std::uint64_t incarnation,
                std::uint64_t sequence,
                bool from_itself) const;
    const Bytes* status_to_tell(KnownPeer& asker);
    bool knows_already(const KnownPeer& asker);
    void note_told(const PeerId& peer);
    void receive_reply(ByteView reply, const PeerId& from);

    runtime::Node node_;
    p2p::Host& host_;
    const security::Signer& signer_;
    const security::Verifier& verifier_;
    PeerTable& table_;
    Random& random_;
    runtime::Scope& scope_;
    Duration told_lately_;
    Callbacks callbacks_;
    std::map<PeerId, bool> pushing_;  // true: something newer waits to be pushed
    bool push_is_due_ = false;        // all are to be told in a moment
    Status own_;                      // the last that was signed
    Bytes own_status_;                // signed
    TimePoint own_status_at_;
};

}  // namespace dedloc::membership
