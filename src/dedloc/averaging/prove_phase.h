// ProvePhase: the leader lets the members of a robust round prove their averages before anything is
// decided: nonces, the draw, rows, objections. What does not hold is checked, and a peer at fault
// goes into the pending orders; the attempt is then aborted, and the next one begins without them.
//
// Round trips: nonces ½, rows 1, objections 1.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/averaging/pending_orders.h"
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/proof_checker.h"
#include "dedloc/averaging/weightless_waits.h"

namespace dedloc::averaging {

class ProvePhase final : public Phase {
  public:
    ProvePhase(RoundParts& parts,
               Prover& prover,
               ProofChecker& checker,
               PendingOrders& pending_orders,
               EvidenceStore& store)
        : parts_(parts),
          environment_(parts.environment),
          prover_(prover),
          checker_(checker),
          pending_orders_(pending_orders),
          store_(store) {}

    std::string_view name() const override { return "prove"; }
    Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) override;
    TimePoint deadline(const Attempt& attempt) const override;
    bool complete(const Attempt& attempt) const override {
        return !environment_.options.proves || !attempt.proof.is_zero();
    }

  private:
    using Heard = std::map<std::uint32_t, Objections>;  // by member
    enum class Asked { all, who_weighs };
    Task<void> prove(std::shared_ptr<Attempt> attempt, std::shared_ptr<OpenProof> open);
    Task<bool> nonces(std::shared_ptr<OpenProof> open);
    Task<bool> rows(std::shared_ptr<OpenProof> open, std::shared_ptr<Proof> proof);
    Task<void> complete_rows(std::shared_ptr<OpenProof> open,
                             std::shared_ptr<Proof> proof,
                             std::map<std::uint32_t, SignedBy> answers);
    Task<bool> objections(std::shared_ptr<OpenProof> open, std::shared_ptr<const Proof> proof);
    Task<bool> sums(std::shared_ptr<OpenProof> open,
                    std::shared_ptr<const Proof> proof,
                    const RowTable& table);
    Task<void> settle(std::shared_ptr<OpenProof> open, ProofFindings findings);
    Task<std::shared_ptr<Heard>> ask_all(std::shared_ptr<OpenProof> open,
                                         std::string method,
                                         Bytes message,
                                         std::vector<Task<void>> besides,
                                         Asked asked = Asked::who_weighs);
    Task<void> answer_draw(std::shared_ptr<OpenProof> open,
                           DrawMessage draw,
                           std::shared_ptr<std::optional<Result<Objections>>> own);
    Task<void> check_table(std::shared_ptr<OpenProof> open,
                           Table table,
                           std::shared_ptr<Objections> own);
    Task<std::shared_ptr<Heard>> show(std::shared_ptr<OpenProof> open, Table table);
    Task<void> ask(std::shared_ptr<OpenProof> open,
                   std::uint32_t member,
                   std::string method,
                   Bytes message,
                   std::shared_ptr<Heard> heard);
    DrawMessage draw_of(const OpenProof& open) const;
    std::vector<std::uint32_t> without_nonce(const OpenProof& open) const;
    void report_two_commitments(const OpenProof& open, const Heard& heard);
    void report_by_testimonies(const OpenProof& open, const Heard& heard);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    Prover& prover_;
    ProofChecker& checker_;
    PendingOrders& pending_orders_;
    EvidenceStore& store_;
    WeightlessWaits weightless_;
};

}  // namespace dedloc::averaging
