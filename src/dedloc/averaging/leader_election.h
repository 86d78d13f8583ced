// LeaderElection: which voter leads the open step, as far as this peer can tell: the first of the
// leader order that has not failed; and when a majority of voters counts as lost.
//
// Thread: the network thread.

#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dedloc/averaging/open_round.h"
#include "dedloc/consensus/acceptor.h"

namespace dedloc::averaging {

// How long a leader that failed is passed over. Shorter than a usual step, so that nobody is lost.
inline constexpr Duration suspicion_of_leaders = 3s;
// A leader whose plans or proposals break the protocol, or whose rounds nobody agrees to: mostly
// longer than the step.
inline constexpr Duration suspicion_of_liars = 30s;
// A leader may have so many rounds in a step that were complete before it began another one.
inline constexpr int fruitless_rounds_max = 2;

class LeaderElection {
  public:
    LeaderElection(const RoundEnvironment& environment,
                   const consensus::PeerScore& scores,
                   const links::Timeouts& timeouts,
                   OpenRound& open,
                   const consensus::Acceptor& acceptor,
                   events::Complaints& complaints);

    // The peer to follow, or to lead as; nobody: all are suspected, and the quorum is not lost yet.
    std::optional<PeerId> pick(const consensus::Base& base) const;
    bool suspected(const PeerId& peer) const;
    void suspect(const PeerId& peer, std::string why, Duration how_long = suspicion_of_leaders);
    // Suspected, and nobody is told.
    void pass_over(const PeerId& peer);
    // A leader that sends such a plan brings no round about: the next one is asked at once.
    void refuse_plan(const PeerId& leader, const Error& why);
    // The leader's round was complete, and it begins another one: voters refuse it, perhaps for
    // what it does that members cannot see. Members that stayed with it would leave the next leader
    // alone.
    void was_fruitless(const PeerId& leader);
    // Connected. A process that is killed loses its connections, long before it has failed to
    // answer anything.
    bool is_here(const PeerId& peer) const;
    // For longer than that, and nobody else meanwhile.
    bool has_followed(const consensus::Base& base, const PeerId& leader, Duration duration);
    void follow_anew() { followed_since_ = environment_.now(); }
    // Lost means gone: as long as a majority of voters is heard of, or somebody tells of a step
    // that we have missed, we try again, for a long time, before we part from the others.
    bool quorum_is_lost() const;
    // A few peers that are out of reach of the others, or new, must not lead those away who have a
    // majority, or whose chain has gone on.
    bool may_follow(const consensus::Decision& branch) const;
    void forget_suspects() {
        suspects_.clear();
        fruitless_.clear();
    }

    // To be called often: a machine that was asleep has not looked at the clock.
    void check_clock() { awake_at_ = environment_.now(); }
    bool slept() const;

  private:
    const RoundEnvironment& environment_;
    const consensus::PeerScore& scores_;
    const links::Timeouts& timeouts_;
    OpenRound& open_;
    const consensus::Acceptor& acceptor_;
    events::Complaints& complaints_;
    std::map<PeerId, TimePoint> suspects_;
    std::map<PeerId, int> fruitless_;     // rounds of this step
    std::pair<Digest, PeerId> followed_;  // after which decision we follow which leader …
    TimePoint followed_since_;            // … and since when
    TimePoint awake_at_;                  // a moment ago, unless this process was stopped
};

inline constexpr Duration sleep_min = 2s;  // without a look at the clock; shorter: busy

}  // namespace dedloc::averaging
