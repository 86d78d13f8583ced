// PeerTable: the peers of the run that this one knows, what they said last, and which of them have
// proved that they may take part (members).
//
// A peer that is only heard of has a place as long as nobody needs it more. Who was a member is
// remembered longer, and much longer if it contributed: networks fail for an hour, laptops sleep
// for a night, and peers that forgot each other would go on alone for ever. Whoever leaves in order
// is forgotten like one that never came.
//
// Thread: the network thread. Limit: peers_most entries.

#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/base/token_bucket.h"
#include "dedloc/membership/status.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/clock.h"

namespace dedloc::membership {

inline constexpr Duration heard_of_for = std::chrono::seconds(120);  // one that never proved itself
inline constexpr Duration member_for = std::chrono::hours(24);       // one that contributed
inline constexpr Duration idle_member_for = std::chrono::hours(1);   // a member that did not yet
// A member that has brought nothing for so long gives its place to a newcomer, if all are taken.
inline constexpr Duration idle_place_for = std::chrono::seconds(120);
// Newcomers that are admitted at once, and then a second: identities cost nothing.
inline constexpr double newcomers_burst = 256;
inline constexpr double newcomers_per_s = 2;

// A member has this of us by our last push, or gets it now.
struct Told {
    Status status;
    TimePoint at;
};

struct KnownPeer {
    Status status;
    double samples_per_s_most = 0;  // that it ever told
    double micro_batch_s_least = 0;
    Bytes signed_status;  // as received, to pass on
    TimePoint status_at;  // when this status came
    TimePoint received;   // when it last said anything itself
    TimePoint first_heard_of;
    std::optional<Told> told;    // none: nothing, or nobody knows whether it came
    TimePoint told_of_another;   // when it was last told the status of another peer
    TimePoint next_meeting;      // not before; of one that is no member
    TimePoint shows_again;       // not before: it is asked for a fresher credential
    TimePoint fell_back;         // when it last said something older than before
    TimePoint is_two_until;      // two processes have its key, as it seems
    std::uint64_t protocol = 0;  // of the run, that it and we use (protocol_range.h); a member's
    std::uint32_t tries = 0;     // to reach it, in vain, since it was a member
    bool member = false;         // hello succeeded on the connection that is open
    bool was_member = false;     // on this one, or an earlier
    bool contributed = false;    // to a step, or reduced parts of one

    // The status is new.
    void note_speed();
};

class PeerTable {
  public:
    // A member that has said nothing for `fresh_for` is not live.
    PeerTable(runtime::Clock& clock, p2p::Host& host, Duration fresh_for, std::size_t peers_most)
        : clock_(clock), host_(host), fresh_for_(fresh_for), peers_most_(peers_most) {}

    std::size_t peers_most() const { return peers_most_; }
    const std::map<PeerId, KnownPeer>& all() const { return peers_; }
    const KnownPeer* find(const PeerId& peer) const;
    KnownPeer* find(const PeerId& peer);
    bool is_member(const PeerId& peer) const;
    bool is_fresh(const KnownPeer& peer) const;
    // Members heard of lately, by PeerId.
    std::vector<const KnownPeer*> live() const;

    // Makes a place in the place of one that is out of reach and silent for so long: one that never
    // proved itself first. False: there is none.
    bool make_room_for(const PeerId& peer, Duration silent_for);
    // A member that has proved itself has a place before those that are only heard of.
    // Where all places are taken, one that has brought nothing for long loses its own.
    bool make_room_for_member(const PeerId& peer);
    // Newcomers come at a bounded rate; who is known already always may.
    bool may_admit(const PeerId& peer);
    // `peer` has brought something to a certified step.
    void contributed(const PeerId& peer);
    // The entry of `peer`, which is made if it is missing; make_room_for() it first.
    KnownPeer& entry_of(const PeerId& peer);
    // The peer has proved itself. True: it had not on this connection. False also: there is no
    // room.
    bool admit(const PeerId& peer);
    // The connection that it proved itself on is gone.
    void dismiss(KnownPeer& known) { set_member(known, false); }
    // Forgets those that were silent for too long.
    void drop_stale();

  private:
    bool evict_an_idle_member();
    void set_member(KnownPeer& known, bool member);

    runtime::Clock& clock_;
    p2p::Host& host_;
    Duration fresh_for_;
    std::size_t peers_most_;
    TokenBucket newcomers_{newcomers_burst, newcomers_per_s};
    std::map<PeerId, KnownPeer> peers_;
};

// Addresses worth giving to a newcomer, with /p2p/: a few of `host` itself, then of others a direct
// one and a relayed one, first of relays, which stay, and of those that need none.
std::vector<std::string> addresses_for_newcomers(const p2p::Host& host,
                                                 std::vector<const KnownPeer*> others,
                                                 std::size_t peers_told);

}  // namespace dedloc::membership
