// SampleClaims: what is believed of the samples that others say they have computed: no more than
// their own speed makes of the time that they can have had.
//
// Generous, as an honest peer must never be refused: machines become slower and faster, and
// statuses come late. A speed itself nobody can check; docs/security.md says what that leaves.
//
// Thread: the network thread. Pure.

#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/consensus/member_input.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/membership/promises.h"
#include "dedloc/run/run_file.h"

namespace dedloc::membership {

class SampleClaims {
  public:
    // `of_strangers`: of a robust run, in which nobody is trusted. `fragments`: of the vector, one
    // of which a step moves: what is brought to it was computed over so many steps.
    SampleClaims(const run::BatchConfig& batch,
                 bool delayed,
                 bool of_strangers = false,
                 std::uint64_t fragments = 1)
        : batch_(batch),
          delayed_(delayed),
          fragments_(static_cast<std::size_t>(fragments)),
          promises_(of_strangers),
          in_commit_since_(2 * fragments_ + 1) {}

    // The open step is committed. `handed_in_at`: when we handed in what it has of ours; nothing:
    // it has nothing of ours. Nobody can have computed at its state before that, however late we
    // heard of the commit.
    void committed(std::optional<TimePoint> handed_in_at);
    // The state was replaced.
    void forget() { std::ranges::fill(in_commit_since_, std::nullopt); }

    // Which of those who have brought nothing yet are counted on.
    Promises& promises() { return promises_; }

    // At the highest speed that it ever told. `carried`: of the step before the open one.
    double computed_most(const KnownPeer& peer, bool carried, TimePoint now) const {
        return computed_since(peer, carried ? 1 : 0, now);
    }
    // `told_of_all`: its newest status is from when it had handed in, or later.
    // Errors: peer_broke_protocol; overloaded: a status that explains it may be on its way.
    Ok check(const KnownPeer& peer,
             const consensus::MemberInput& input,
             bool told_of_all,
             TimePoint now) const;

  private:
    double computed_since(const KnownPeer& peer, std::size_t steps_ago, TimePoint now) const;

    run::BatchConfig batch_;
    bool delayed_;
    std::size_t fragments_;
    Promises promises_;
    std::vector<std::optional<TimePoint>> in_commit_since_;  // the newest commits, newest first
};

}  // namespace dedloc::membership
