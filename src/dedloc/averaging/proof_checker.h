// ProofChecker: whether a proof holds, and who is to blame if it does not. As contributions are
// committed to and reductions and rows have the same bits everywhere, the result is exact: the part
// is reduced again from its inputs, or the row is made again. Inputs come from the owner or, if
// that one shows none, from their authors; an input that neither shows leaves both undecided.
//
// Cost: the inputs of sixteen parts, or rows, at a time over our link. Thread: the network thread;
// arithmetic on workers.

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dedloc/averaging/pending_orders.h"
#include "dedloc/averaging/prover.h"

namespace dedloc::averaging {

struct ProofFindings {
    std::vector<ProposedOrder> orders;
    std::vector<Testimony> unshown;  // what nobody showed

    bool is_clear() const { return orders.empty() && unshown.empty(); }
};

class ProofChecker {
  public:
    ProofChecker(RoundParts& parts, Prover& prover, EvidenceStore& store)
        : parts_(parts), environment_(parts.environment), prover_(prover), store_(store) {}

    // The rows about this owner do not add up: it reduced wrongly, or somebody's row is false. Or
    // all is right, and rounding was worse than it should be.
    Task<ProofFindings> of_owner(std::shared_ptr<OpenProof> open,
                                 std::shared_ptr<const Proof> proof,
                                 std::uint32_t owner);
    // An owner says that a member's row is false: one of them lies.
    Task<ProofFindings> of_row(std::shared_ptr<OpenProof> open,
                               std::shared_ptr<const Proof> proof,
                               SignedBy accusation);

    // For a voter: is this commit proved? Errors: peer_broke_protocol: it is not; not_found: its
    // proof, or what it takes to look into it, is not to be had.
    Task<Result<void>> vouch(std::shared_ptr<const consensus::RoundPlan> plan,
                             consensus::Decision decision,
                             PeerId proposer);

  private:
    using Check = std::function<Task<void>(std::shared_ptr<ProofFindings> found)>;
    Task<ProofFindings> first_not_clear(std::vector<Check> checks);
    Task<bool> gather(std::shared_ptr<OpenProof> open,
                      std::vector<AskInput> asks,
                      std::shared_ptr<Evidence> into,
                      std::shared_ptr<ProofFindings> findings);
    Task<void> fetch(std::shared_ptr<OpenProof> open,
                     AskInput ask,
                     std::shared_ptr<std::vector<std::optional<allreduce::CommittedInput>>> into,
                     std::size_t place);
    Task<void> check_part(std::shared_ptr<OpenProof> open,
                          std::uint32_t part,
                          std::shared_ptr<ProofFindings> findings);
    Task<void> check_row(std::shared_ptr<OpenProof> open,
                         std::shared_ptr<const Proof> proof,
                         std::uint32_t owner,
                         std::uint32_t member,
                         std::optional<SignedBy> accusation,
                         std::shared_ptr<ProofFindings> findings);
    bool was_committed_before_draw(const consensus::RoundPlan& plan, const DrawMessage& draw) const;
    Task<Result<void>> check_proof(std::shared_ptr<const consensus::RoundPlan> plan,
                                   std::shared_ptr<const consensus::Decision> decision,
                                   std::shared_ptr<const Proof> proof,
                                   std::shared_ptr<const allreduce::ProofRows> rows);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    Prover& prover_;
    EvidenceStore& store_;
};

}  // namespace dedloc::averaging
