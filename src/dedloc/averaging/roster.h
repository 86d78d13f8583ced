// What a round asks of the module above and tells it: who takes part in the run (Roster), and what
// has come of a round (RoundListener). Both are implemented above; a test implements what it needs.
//
// Thread: the network thread; calls return at once.

#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/averaging/ledger.h"

namespace dedloc::averaging {

// Why a round is planned to take as long as it does.
struct PlanNote {
    double predicted_s = 0;
    // What the slowest line is full with, in a word (none, upload, download), and whose it is.
    // Empty: not known, as in a grid.
    std::string bottleneck;
    PeerId bottleneck_peer;
    std::vector<PeerId> left_out;
};

// What happened in rounds, for events and measurements.
struct RoundNote {
    enum class Kind {
        plan_made,
        repair,
        refused_input,    // a contribution, or a piece of it
        refused_message,  // anything else that a member may not say
        owner_failed,
        aborted,
        leader_suspected,
        branch_opened,
        round_full,     // and goes on without us
        votes_failed,   // our votes cannot be written: until they can, we have none
        votes_failing,  // and that for longer than a moment
        votes_written,  // they can again
    };
    Kind kind;
    PeerId peer;                     // whom it is about
    std::string text;                // for people
    std::optional<PlanNote> plan{};  // of plan_made
};

// Who takes part in the run, as far as this peer has heard.
class Roster {
  public:
    virtual ~Roster() = default;
    // Live trainers that stand on `base` and are worth waiting for (not us).
    virtual std::vector<PeerId> expected(const Base& base) const = 0;
    // Live peers that could share a new branch, trainers only (not us).
    virtual std::vector<PeerId> live_trainers() const = 0;
    // Those of them that have no state yet, or an old one.
    virtual std::vector<PeerId> newcomers() const { return {}; }
    // Voters of `base` (us included) that are heard of and still have their memory of votes.
    virtual std::size_t voters_heard_of(const Base& base) const = 0;
    // Those of them that have not gone on as another branch.
    virtual std::size_t voters_of_our_branch(const Base& base) const {
        return voters_heard_of(base);
    }
    // Somebody tells of certificates that follow those of `base`: its chain goes on without us.
    virtual bool chain_goes_on(const Base&) const { return false; }
    // The state of another chain, or of a later step, is on its way to us.
    virtual bool loads_state() const { return false; }
    // May this peer speak in rounds at all (it proved the run's secret)?
    virtual bool allowed(const PeerId& peer) const = 0;
    // The longest micro-batch somebody expected is computing, seconds.
    virtual double micro_batch_s() const = 0;
    // What `peer` says of its line; 0: not measured yet, or not known.
    virtual double upload_bytes_per_s(const PeerId& peer) const = 0;
    // Can `peer` have computed so many samples since the open step began? Errors:
    // peer_broke_protocol: no, by the speed that it told of itself; overloaded: not by the newest
    // that we have heard of it, which is older than what it hands in: ask again.
    virtual Ok check_samples(const PeerId& peer, const MemberInput& input) const = 0;
};

// Is told what happens in rounds.
class RoundListener {
  public:
    virtual ~RoundListener() = default;
    // Others announce a round: hand in soon.
    virtual void round_wanted() = 0;
    // `peer` knows certificates that we lack.
    virtual void behind(const PeerId& peer) = 0;
    // We vote for this commit and hold every average of it: most likely it will be certified.
    virtual void voting_for(const Decision& decision) = 0;
    virtual void note(const RoundNote& note) = 0;
};

}  // namespace dedloc::averaging
