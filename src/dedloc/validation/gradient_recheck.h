// GradientRecheck: what validators found about one contribution, as evidence that convinces whoever
// reads it: the round's draw, the rows that the author signed, and the rows that others computed
// again from its sample numbers, each signed by who computed them.
//
//   probation, mistaken   one recheck in which enough voters compute something else than the
//                         author does and agree with each other; or as many agree with the author
//                         and the subject alone does not
//   ban, wrong_gradient   one such recheck about its contribution to a round where it weighed
//                         nothing already, and had been told of a mistake two steps before; or any
//                         such recheck, after the subject had been let in again
//   vouch                 rechecks of different rounds in which others find the author right, as
//                         many as the run wants; or none, and the subject was a voter a moment
//                         ago. A peer that had erred gets one that says so (`mistaken`)
//
// Thread: any; pure. Errors: peer_broke_protocol.

#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dedloc/averaging/evidence.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/base/fields.h"
#include "dedloc/robust/recheck.h"

namespace dedloc::validation {

inline constexpr std::string_view finding_domain = "dedloc-finding";
inline constexpr std::size_t rechecks_max = 16;         // of one order
inline constexpr std::uint64_t recheck_steps_max = 50;  // between a mistake and its order

// How many voters have to find the same, so that liars who are fewer than half of them are not
// enough. An author cannot check itself, so it is no majority.
std::size_t agreement_needed(std::size_t voters);

// "Computed again, the contribution of that member has these rows." Signed by a member.
struct Finding {
    Digest draw;
    std::uint32_t target = 0;  // index into the plan's members
    Bytes rows;                // one an owner (averaging/round_proof.h)

    DEDLOC_FIELDS(draw, target, rows)
};

struct GradientRecheck {
    Bytes plan;
    averaging::Proof proof;  // the draw, and the author's answer alone
    std::vector<averaging::SignedBy> findings;

    DEDLOC_FIELDS(plan, proof, (findings, consensus::members_max))
};

struct GradientEvidence {
    std::vector<GradientRecheck> rechecks;
    bool voted = false;  // of a vouch without rechecks: the subject was a voter a moment ago

    DEDLOC_FIELDS((rechecks, rechecks_max), voted)
};

// So many different voters are to find right contributions of a peer before it is let in, of those
// who can: one of them could be its accomplice.
std::size_t finders_needed(const consensus::RoundPlan& plan,
                           const PeerId& author,
                           const std::set<PeerId>& voters,
                           std::size_t rechecks);

// A recheck whose signatures hold.
struct VerifiedRecheck {
    std::shared_ptr<const consensus::RoundPlan> plan;
    PeerId author;
    bool weightless = false;  // the author, in that round
    std::vector<robust::Row> rows;
    std::map<PeerId, std::vector<robust::Row>> findings;
};
Result<VerifiedRecheck> verify_recheck(const GradientRecheck& from,
                                       const security::Verifier& verifier);

// The outcome that follows from the findings of `voters`.
struct RecheckOutcome {
    robust::RecheckResult result = robust::RecheckResult::open;
    std::vector<PeerId> guilty;  // the accusers, of accuser_guilty
    std::set<PeerId> agree{};    // with the author
};
std::set<PeerId> ids_of(const std::vector<consensus::Voter>& voters);
RecheckOutcome recheck_outcome(const VerifiedRecheck& read,
                               const std::set<PeerId>& voters,
                               double tolerance);

struct GradientRules {
    double tolerance = 0;
    std::uint32_t right_needed = 3;
};
void add_gradient_rules(averaging::EvidenceRules& rules, GradientRules of);

}  // namespace dedloc::validation
