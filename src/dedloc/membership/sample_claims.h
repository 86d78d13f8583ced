// SampleClaims: what is believed of the samples that others say they have computed: no more than
// their own speed makes of the time that they can have had.
//
// Generous, as an honest peer must never be refused: machines become slower and faster, and
// statuses come late. A speed itself nobody can check; docs/security.md says what that leaves.
//
// Thread: the network thread. Pure.

#pragma once
#include <array>
#include <optional>

#include "dedloc/base/time.h"
#include "dedloc/consensus/member_input.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/membership/promises.h"
#include "dedloc/run/run_file.h"

namespace dedloc::membership {

class SampleClaims {
  public:
    // `of_strangers`: of a robust run, in which nobody is trusted.
    SampleClaims(const run::BatchConfig& batch, bool delayed, bool of_strangers = false)
        : batch_(batch), delayed_(delayed), promises_(of_strangers) {}

    // The open step is committed. `handed_in_at`: when we handed in what it has of ours; nothing:
    // it has nothing of ours. Nobody can have computed at its state before that, however late we
    // heard of the commit.
    void committed(std::optional<TimePoint> handed_in_at);
    // The state was replaced.
    void forget() { in_commit_since_ = {}; }

    // Which of those who have brought nothing yet are counted on.
    Promises& promises() { return promises_; }

    // At the highest speed that it ever told. `carried`: of the step before the open one.
    double computed_most(const KnownPeer& peer, bool carried, TimePoint now) const;
    // `told_of_all`: its newest status is from when it had handed in, or later.
    // Errors: peer_broke_protocol; overloaded: a status that explains it may be on its way.
    Ok check(const KnownPeer& peer,
             const consensus::MemberInput& input,
             bool told_of_all,
             TimePoint now) const;

  private:
    std::optional<TimePoint> computed_since(bool carried) const;

    run::BatchConfig batch_;
    bool delayed_;
    Promises promises_;
    std::array<std::optional<TimePoint>, 3> in_commit_since_;  // the newest commits, newest first
};

}  // namespace dedloc::membership
