// RoundProofs: what a member of robust runs has beside the round: its prover, its checker, and the
// leader's phase.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>

#include "dedloc/averaging/double_votes.h"
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/proof_checker.h"
#include "dedloc/averaging/prover.h"

namespace dedloc::averaging {

class RoundProofs {
  public:
    RoundProofs(RoundParts& parts,
                CommitAverages& averages,
                EvidenceStore& store,
                PendingOrders& pending_orders);

    void start() { prover_.start(); }
    Task<void> stop() { return prover_.stop(); }
    std::unique_ptr<Phase> make_phase();
    // Looks at any certificate: a voter that voted twice goes into the pending orders.
    void inspect(ByteView certificate);
    // The proof of a commit; null: it did not come here.
    std::shared_ptr<const ProvedRound> proved(const consensus::Link& commit) const;

  private:
    RoundParts& parts_;
    EvidenceStore& store_;
    PendingOrders& pending_orders_;
    DoubleVotes double_votes_;
    Prover prover_;
    ProofChecker checker_;
};

}  // namespace dedloc::averaging
