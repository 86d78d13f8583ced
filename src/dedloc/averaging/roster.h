// A round asks the module above and tells it: who takes part in the run (Roster), and what
// has come of a round (RoundListener). Both are implemented above; a test implements what it needs.
//
// Thread: the network thread; calls return at once.

#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/consensus/environment.h"

namespace dedloc::averaging {

// The one that handed in last, and by how much: so long the others waited for it alone.
struct LastToCome {
    PeerId peer{};
    double seconds = 0;
};

// A member's line, as the plan counts on it.
struct MemberLine {
    PeerId peer{};
    double upload_bytes_per_s = 0;
    double download_bytes_per_s = 0;
    bool aggregator = false;
    bool may_own = false;
};

// Why a round is planned to take as long as it does.
struct PlanNote {
    double predicted_s = 0;
    // The slowest link is full with this, in a word (none, upload, download), and whose it is.
    // Empty: not known, as in a grid.
    std::string bottleneck;
    PeerId bottleneck_peer;
    std::vector<PeerId> left_out;
    double bottleneck_bytes_per_s = 0;  // of that link; 0: not known
    double vector_bytes = 0;            // of the average, encoded
    std::vector<MemberLine> lines{};
    std::optional<LastToCome> last_came{};  // nothing: one alone
};

// A note of what happened in rounds, for events and measurements.
struct RoundNote {
    enum class Kind {
        plan_made,
        repair,
        refused_input,    // a contribution, or a piece of it
        refused_message,  // anything else that a member may not say
        owner_failed,
        values_clipped,  // of what we bring, by its codec
        aborted,
        leader_suspected,
        branch_opened,
        round_full,      // and goes on without us
        waited_in_vain,  // for one whose announcement did not come
        votes_failed,    // our votes cannot be written: until they can, we have none
        votes_failing,   // and that for longer than a moment
        votes_written,   // they can again
    };
    Kind kind;
    PeerId peer;                     // whom it is about
    std::string text;                // for people
    std::optional<PlanNote> plan{};  // of plan_made
};

// Tells which peers take part in the run, as far as this one has heard.
class Roster : public consensus::Electorate {
  public:
    // Live trainers that stand on `base` and are worth waiting for (not us).
    virtual std::vector<PeerId> expected(const consensus::Base& base) const = 0;
    // Has it brought anything to a certified step, as far as we have seen?
    virtual bool has_contributed(const PeerId&) const { return true; }
    // Live peers that could share a new branch, trainers only (not us).
    virtual std::vector<PeerId> live_trainers() const = 0;
    // Those of them that have no state yet, or an old one.
    virtual std::vector<PeerId> newcomers() const { return {}; }
    // The longest micro-batch somebody expected is computing, seconds.
    virtual double micro_batch_s() const = 0;
    // The uplink that `peer` announces; 0: not measured yet, or not known.
    virtual double upload_bytes_per_s(const PeerId& peer) const = 0;
    // Can `peer` have computed so many samples since the open step began? Errors:
    // peer_broke_protocol: no, by the speed that it told of itself; overloaded: not by the newest
    // that we have heard of it, which is older than what it hands in: ask again.
    virtual Ok check_samples(const PeerId& peer, const consensus::MemberInput& input) const = 0;
};

struct ProvedRound;  // round_proof.h

// Is told what happens in rounds.
class RoundListener {
  public:
    virtual ~RoundListener() = default;
    // Others announce a round: hand in soon.
    virtual void round_wanted() = 0;
    // `peer` knows certificates that we lack.
    virtual void behind(const PeerId& peer) = 0;
    // We vote for this commit and hold every average of it: most likely it will be certified.
    virtual void voting_for(const consensus::Decision& decision) = 0;
    virtual void note(const RoundNote& note) = 0;
    // An order that is proved here, and by what: others may ask for it long after.
    virtual void order_proved(const robust::Order&, const Bytes&) {}
    // A commit of a robust run, with what proved it, where that came to us.
    virtual void proved(const ProvedRound&) {}
};

}  // namespace dedloc::averaging
