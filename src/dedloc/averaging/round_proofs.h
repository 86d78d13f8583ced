// RoundProofs: what a member of robust runs has beside the round: its prover, its judge, and the
// leader's phase.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>

#include "dedloc/averaging/double_votes.h"
#include "dedloc/averaging/judge.h"
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/prover.h"

namespace dedloc::averaging {

class RoundProofs {
  public:
    RoundProofs(RoundParts& parts, CommitAverages& averages, EvidenceStore& store, Docket& docket);

    void start() { prover_.start(); }
    Task<void> stop() { return prover_.stop(); }
    std::unique_ptr<Phase> make_phase();
    // Looks at any certificate: a voter that voted twice goes onto the docket.
    void look_at(ByteView certificate);
    // The proof of a commit; null: it did not come here.
    std::shared_ptr<const ProvedRound> proved(const consensus::Link& commit) const;

  private:
    RoundParts& parts_;
    EvidenceStore& store_;
    Docket& docket_;
    DoubleVotes double_votes_;
    Prover prover_;
    Judge judge_;
};

}  // namespace dedloc::averaging
