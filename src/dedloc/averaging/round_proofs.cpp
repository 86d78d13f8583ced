#include "dedloc/averaging/round_proofs.h"

#include <utility>

#include "dedloc/averaging/prove_phase.h"

namespace dedloc::averaging {

RoundProofs::RoundProofs(RoundParts& parts,
                         CommitAverages& averages,
                         EvidenceStore& store,
                         PendingOrders& pending_orders)
    : parts_(parts),
      store_(store),
      pending_orders_(pending_orders),
      prover_(parts, averages),
      checker_(parts, prover_, store) {
    parts.on_exchange = [this](const std::shared_ptr<allreduce::Exchange>& exchange) {
        prover_.begin(exchange);
    };
    averages.ask_for_proofs([this](std::shared_ptr<const consensus::RoundPlan> plan,
                                   consensus::Decision decision,
                                   PeerId proposer) {
        return checker_.vouch(std::move(plan), std::move(decision), std::move(proposer));
    });
}

std::shared_ptr<const ProvedRound> RoundProofs::proved(const consensus::Link& commit) const {
    const std::shared_ptr<OpenProof> open =
        prover_.find(consensus::decision_digest(commit.decision.plan));
    if (!commit.plan || !open || !open->proof || open->proof_digest != commit.decision.proof)
        return nullptr;
    const auto proof = std::make_shared<const Proof>(*open->proof);
    return std::make_shared<const ProvedRound>(ProvedRound{commit.plan,
                                                           proof->draw.plan,
                                                           seed_of(proof->draw),
                                                           commit.decision.state_before,
                                                           commit.decision.instance.step,
                                                           proof});
}

void RoundProofs::inspect(ByteView certificate) {
    const consensus::Base& base = parts_.environment.ledger.base();
    for (const DoubleVote& found :
         double_votes_.inspect(parts_.environment.verifier, base.number, certificate)) {
        Evidence evidence;
        evidence.votes = {found.first, found.second};
        pending_orders_.add(propose_order(
            base, found.voter, robust::OrderKind::ban, robust::Offence::double_vote, evidence));
    }
}

std::unique_ptr<Phase> RoundProofs::make_phase() {
    return std::make_unique<ProvePhase>(parts_, prover_, checker_, pending_orders_, store_);
}

}  // namespace dedloc::averaging
