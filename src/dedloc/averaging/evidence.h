// Evidence: what an order about a peer rests on, in one piece of bytes that convinces whoever reads
// it: voters before they vote, and people who audit a run afterwards. The order names its SHA-256.
//
//   two_commitments    both of them, signed
//   wrong_reduction    what the owner signed, and all that it reduced: again, it is another
//   false_row          the row that the member signed, and its input: that has another row
//   false_accusation   the accusation that the owner signed, and the same: the rows are equal
//   double_vote        two votes for two decisions under one ballot, signed
//   unjudged, withheld what so many voters saw, signed, that one of them is honest; a moment ago
//   others             a rule of those who give such orders (EvidenceRules::add)
//
// Everything is bound to one plan: nobody can show what a member said in another round.
// Thread: any; pure. Cost: that of reducing a part again. Bounds: evidence_bytes_max.

#pragma once
#include <functional>
#include <map>
#include <vector>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/averaging/proof_messages.h"
#include "dedloc/base/fields.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/robust/orders.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::averaging {

// A part of 4 MiB of 16 members.
inline constexpr std::size_t evidence_bytes_max = 64u << 20;

// Testimonies are about one of the newest rounds: their orders end, and must not come back.
inline constexpr std::uint64_t testimony_steps_max = 40;

struct ShownAverage {
    std::uint32_t part = 0;
    Bytes encoded;

    DEDLOC_FIELDS(part, encoded)
};

struct ShownVote {
    Bytes decision;
    std::uint32_t ballot = 0;
    Bytes signature;

    DEDLOC_FIELDS(decision, ballot, signature)
};

struct Evidence {
    Bytes plan;
    std::vector<SecondCommitment> commitments;
    std::vector<consensus::FinishedPart> finished;
    std::vector<Proof> proof;  // one, with the answer in question
    std::vector<ShownInput> inputs;
    std::vector<ShownAverage> averages;
    std::vector<SignedBy> statements;
    std::vector<ShownVote> votes;

    DEDLOC_FIELDS(plan,
                  (commitments, consensus::members_max),
                  (finished, 1),
                  (proof, 1),
                  (inputs, consensus::parts_max),
                  (averages, consensus::parts_max),
                  (statements, consensus::members_max),
                  (votes, 2))
};

struct EvidenceContext {
    const security::Verifier& verifier;
    allreduce::CenteredClipRule rule;
    std::vector<consensus::Voter> voters;  // of the decision with the order
    runtime::Workers& workers;
    robust::Orders orders{};    // before that decision
    bool voted_lately = false;  // the subject, on the chain that is known here
};

// Errors: peer_broke_protocol: it does not prove the order.
using EvidenceRule = std::function<Ok(const robust::Order&, ByteView, const EvidenceContext&)>;

class EvidenceRules {
  public:
    // With those of the list above.
    EvidenceRules();
    void add(robust::Offence offence, EvidenceRule rule);
    bool knows(robust::Offence offence) const { return rules_.contains(offence); }
    Ok check(const robust::Order& order, ByteView evidence, const EvidenceContext& context) const;

  private:
    // An offence may be proved in more than one way.
    std::multimap<robust::Offence, EvidenceRule> rules_;
};

// An owner's input, checked: does what is shown prove this row of the member false, or right?
Result<bool> row_is_right(const Evidence& evidence,
                          std::uint32_t owner,
                          std::uint32_t member,
                          const EvidenceContext& context);
// Does what is shown, reduced again, give what the owner signed?
Result<bool> reduction_is_right(const Evidence& evidence, const EvidenceContext& context);

}  // namespace dedloc::averaging
