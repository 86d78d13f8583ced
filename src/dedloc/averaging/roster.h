// A round asks the module above who takes part in the run (Roster), and has it act on what comes of
// a round (RoundListener). Both are implemented above; a test implements what it needs.
//
// Thread: the network thread; calls return at once.

#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "dedloc/consensus/environment.h"

namespace dedloc::averaging {

// Tells which peers take part in the run, as far as this one has heard.
class Roster : public consensus::Electorate {
  public:
    // Live trainers that stand on `base` and are worth waiting for (not us).
    virtual std::vector<PeerId> expected(const consensus::Base& base) const = 0;
    // Has it brought anything to a certified step, as far as we have seen?
    virtual bool has_contributed(const PeerId&) const { return true; }
    // Is it worth waiting for, if it has not?
    virtual bool is_believed(const PeerId&) const { return true; }
    // Live peers that could share a new branch, trainers only (not us).
    virtual std::vector<PeerId> live_trainers() const = 0;
    // Members that have no state yet, or an old one.
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

// Is asked to act on what rounds find out. What people may want to know goes to events::Teller.
class RoundListener : public consensus::ConsensusListener {
  public:
    // Others announce a round: hand in soon.
    virtual void round_wanted() = 0;
    // An order that is proved here, and by what: others may ask for it long after.
    virtual void order_proved(const robust::Order&, const Bytes&) {}
    // A commit of a robust run, with what proved it, where that came to us.
    virtual void proved(const ProvedRound&) {}
};

}  // namespace dedloc::averaging
