// Protection: what a robust run has certified of itself, and what that allows the next step
// (docs/robust-runs.md). Decisions carry it, so that everybody who follows the chain comes to the
// same answers, whenever it came:
//
//   standings   who is at work, what each brought, and in how many steps it weighed
//   sizes       of the newest steps: how long the average was, and how far honest contributions
//               were from each other
//
// From the first follow the minimum of a step and how much a young key weighs; from the second tau
// and the longest step. What a leader writes into a plan or a decision is computed again by all.
//
// Thread: any; pure. The same bits on every CPU. Bounds: members_max standings, sizes_max sizes.

#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/consensus/plan.h"
#include "dedloc/robust/orders.h"
#include "dedloc/robust/step_size.h"

namespace dedloc::consensus {

struct Decision;
struct Voter;

inline constexpr std::size_t sizes_max = 16;
inline constexpr std::size_t contributors_least = 3;   // of a step of a protected run
inline constexpr std::uint64_t at_work_for = 4;        // decisions after it brought something
inline constexpr std::uint64_t standing_for = 10'000;  // decisions; then a key is new again
inline constexpr double step_length_most = 3;          // times the median of the newest steps
inline constexpr double distance_growth_most = 4;      // of one step over that median

struct Standing {
    PeerId peer;
    std::uint64_t weight = 0;  // samples that it brought last
    std::uint64_t steps = 0;   // in which it weighed
    std::uint64_t number = 0;  // of the newest decision with something of it; 0: before a branch

    friend bool operator==(const Standing&, const Standing&) = default;
    DEDLOC_FIELDS(peer, weight, steps, number)
};

using robust::StepSize;

// As the run says.
struct ProtectionRules {
    bool on = false;
    double tau = 0;                 // 0: as it is measured
    double weight_cap = 2;          // times the median weight
    std::uint64_t trust_after = 0;  // steps until a key weighs what its samples are worth
};

class Protection {
  public:
    ProtectionRules rules{};
    std::vector<Standing> standings{};  // sorted by peer
    std::vector<StepSize> sizes{};      // oldest first; lengths as they were applied

    // Nothing is known of honest steps yet: only voters weigh in the first one.
    bool knows_nothing() const { return rules.on && sizes.empty(); }
    double tau() const;
    double length_max() const;  // 0: none
    // PlanMember::trust of this peer.
    std::uint32_t trust_of(const PeerId& peer) const;
    // With what chance its contribution of a step is checked, in which it weighed for the
    // `steps`-th time.
    double check_chance(std::uint64_t steps, double usual) const;

    // Peers at work after the decision with this number, and what they weigh.
    std::map<PeerId, double> at_work(std::uint64_t number) const;
    // Does the plan say what follows from here? Errors: peer_broke_protocol.
    Ok check_plan(const RoundPlan& plan) const;
    // May a step be made of these parts, after the decision with this number? `parts` empty: of
    // what the plan's members bring. Where nobody is at work, `voters` are, all alike.
    // Errors: peer_broke_protocol, in words.
    Ok check_minimum(const RoundPlan& plan,
                     std::span<const FinishedPart> parts,
                     std::uint64_t number,
                     std::span<const Voter> voters) const;

    // Writes what follows from the rest of `decision` into it.
    void carry_into(Decision& decision, const RoundPlan* plan) const;
    // Errors: peer_broke_protocol: it carries something else.
    Ok check_carried(const Decision& decision, const RoundPlan* plan) const;

  private:
    std::vector<Standing> standings_after(const Decision& decision, const RoundPlan* plan) const;
    std::vector<StepSize> sizes_after(const Decision& decision) const;
};

// Is what a decision carries of it sound, whoever wrote it? Errors: peer_broke_protocol.
Ok check_protection_shape(const Decision& decision);

// By what the average of this commit is multiplied before the optimizer sees it: 1, or what makes
// it no longer than its plan allows.
double step_scale(const Decision& decision, const RoundPlan& plan);

}  // namespace dedloc::consensus
