#include "dedloc/consensus/protection.h"

#include <algorithm>
#include <cmath>

#include "dedloc/consensus/ledger.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/lower_median.h"

namespace dedloc::consensus {
namespace {

// Where nothing is known: beyond all honest distances.
constexpr double tau_unknown = 1e6;
// Gradients that have vanished still have a tau.
constexpr double tau_least = 1e-12;
constexpr double tau_of_length_least = 1e-3;
// A step needs more than this of the weight at work. If half were enough, two of five who collude
// would have the most of it while two others are busy.
constexpr double weight_at_work_least = 2.0 / 3;
// Gradients become shorter as a run learns: a step is no longer than so many times the median of so
// many newest ones either.
constexpr double length_of_newest_most = 2;
constexpr std::size_t newest_sizes = 4;

Error unprotected(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "a robust step is refused: {}", why);
}

double median_of(const std::vector<StepSize>& sizes, double StepSize::*which) {
    std::vector<double> values;
    values.reserve(sizes.size());
    for (const StepSize& size : sizes) values.push_back(size.*which);
    return robust::lower_median(std::move(values));
}

bool is_sound(const StepSize& size) {
    return std::isfinite(size.length) && std::isfinite(size.distance) && size.length >= 0 &&
           size.distance >= 0;
}

// Brings something that counts.
bool contributes(const PlanMember& member) {
    return !member.aggregator && !member.weightless && member.input.weight_max() > 0;
}

bool is_kept_out(const robust::Orders& orders, const PeerId& peer, std::uint64_t step) {
    return orders.barring(peer, step) != nullptr || orders.on_probation(peer, step);
}

Standing& standing_of(std::vector<Standing>& standings, const PeerId& peer) {
    const auto place = std::ranges::lower_bound(standings, peer, {}, &Standing::peer);
    if (place != standings.end() && place->peer == peer) return *place;
    Standing fresh;
    fresh.peer = peer;
    return *standings.insert(place, std::move(fresh));
}

// The peers that were here last stay.
void make_room(std::vector<Standing>& standings) {
    while (standings.size() > members_max)
        standings.erase(std::ranges::min_element(standings, {}, &Standing::number));
}

}  // namespace

double Protection::tau() const {
    if (!rules.on || rules.tau > 0) return rules.tau;
    if (sizes.empty()) return tau_unknown;
    return std::max({median_of(sizes, &StepSize::distance),
                     median_of(sizes, &StepSize::length) * tau_of_length_least,
                     tau_least});
}

double Protection::length_max() const {
    if (!rules.on) return 0;
    const std::size_t old = sizes.size() - std::min(sizes.size(), newest_sizes);
    const std::vector<StepSize> newest(sizes.begin() + static_cast<std::ptrdiff_t>(old),
                                       sizes.end());
    const double of_all = step_length_most * median_of(sizes, &StepSize::length);
    const double of_newest = length_of_newest_most * median_of(newest, &StepSize::length);
    return of_newest > 0 ? std::min(of_all, of_newest) : of_all;
}

std::uint32_t Protection::trust_of(const PeerId& peer) const {
    if (!rules.on || rules.trust_after == 0) return 0;
    const auto found = std::ranges::lower_bound(standings, peer, {}, &Standing::peer);
    const bool known = found != standings.end() && found->peer == peer;
    const std::uint64_t steps = known ? found->steps : 0;
    if (steps >= rules.trust_after) return 0;
    const std::uint64_t share = trust_whole * (steps + 1) / (rules.trust_after + 1);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, trust_whole - 1));
}

double Protection::check_chance(std::uint64_t steps, double usual) const {
    if (rules.trust_after == 0 || usual <= 0) return usual;
    if (steps <= rules.trust_after) return 1;
    return std::max(usual, static_cast<double>(rules.trust_after) / static_cast<double>(steps));
}

std::map<PeerId, double> Protection::at_work(std::uint64_t number) const {
    std::vector<PeerId> peers;
    std::vector<double> weights;
    for (const Standing& standing : standings) {
        if (standing.number == 0 || standing.number + at_work_for <= number) continue;
        peers.push_back(standing.peer);
        weights.push_back(static_cast<double>(standing.weight) *
                          trust_factor(trust_of(standing.peer)));
    }
    weights = robust::capped_weights(weights, rules.weight_cap);
    std::map<PeerId, double> known;
    for (std::size_t i = 0; i < peers.size(); ++i) known.emplace(peers[i], weights[i]);
    return known;
}

Ok Protection::check_plan(const RoundPlan& plan) const {
    if (plan.tau != tau() || plan.length_max != length_max())
        return unprotected(
            "its plan has another tau, or another longest step, than follows from "
            "the steps before it");
    for (const PlanMember& member : plan.members)
        if (member.trust != (member.aggregator ? 0 : trust_of(member.peer)))
            return unprotected("a member of its plan weighs more, or less, than its steps allow");
    return {};
}

Ok Protection::check_minimum(const RoundPlan& plan,
                             std::span<const FinishedPart> parts,
                             std::uint64_t number,
                             std::span<const Voter> voters) const {
    if (!rules.on) return {};
    std::map<PeerId, double> known = at_work(number);
    if (known.empty())
        for (const Voter& voter : voters) known.emplace(voter.peer, 1);
    double all = 0;
    for (const auto& [peer, weight] : known) all += weight;
    // In a run of two, one that brings nothing for long would hold the other one up for ever.
    const bool protects = known.size() >= contributors_least;
    const std::size_t least = protects ? contributors_least : 1;
    for (std::size_t part = 0; part < std::max<std::size_t>(parts.size(), 1); ++part) {
        std::size_t contributors = 0;
        double here = 0;
        for (std::size_t m = 0; m < plan.members.size(); ++m) {
            if (!contributes(plan.members[m]) || (!parts.empty() && !parts[part].includes(m)))
                continue;
            ++contributors;
            const auto standing = known.find(plan.members[m].peer);
            if (standing != known.end()) here += standing->second;
        }
        if (contributors >= least && here > (protects ? all * weight_at_work_least : 0)) continue;
        return unprotected(
            fmt::format("it needs {} contributor{} with {} of the weight at work, and has {} with "
                        "{:.0f} % of it",
                        least,
                        least == 1 ? "" : "s",
                        protects ? "more than two thirds" : "some",
                        contributors,
                        all > 0 ? 100 * here / all : 0.0));
    }
    return {};
}

std::vector<Standing> Protection::standings_after(const Decision& decision,
                                                  const RoundPlan* plan) const {
    std::vector<Standing> after = standings;
    if (decision.kind == DecisionKind::branch)
        for (Standing& standing : after) {
            const bool survives =
                std::ranges::binary_search(decision.next_voters, standing.peer, {}, &Voter::peer);
            standing.number = survives ? decision.number : 0;
        }
    if (plan != nullptr) {
        const std::vector<bool> included = included_members(decision, *plan);
        for (std::size_t m = 0; m < plan->members.size(); ++m) {
            const PlanMember& member = plan->members[m];
            if (!contributes(member) || !included[m]) continue;
            Standing& standing = standing_of(after, member.peer);
            standing.weight = member.input.weight_max();
            standing.steps += 1;
            standing.number = decision.number;
        }
    }
    const robust::Orders orders(decision.orders);
    const std::uint64_t step = step_after(decision);
    std::erase_if(after, [&](const Standing& standing) {
        return is_kept_out(orders, standing.peer, step) ||
               standing.number + standing_for <= decision.number;
    });
    make_room(after);
    return after;
}

std::vector<StepSize> Protection::sizes_after(const Decision& decision) const {
    std::vector<StepSize> after = sizes;
    if (decision.kind != DecisionKind::commit) return after;
    StepSize size = decision.size;
    const double longest = length_max();
    if (longest > 0) size.length = std::min(size.length, longest);
    const double usual = median_of(sizes, &StepSize::distance);
    if (usual > 0) size.distance = std::min(size.distance, usual * distance_growth_most);
    after.push_back(size);
    if (after.size() > sizes_max) after.erase(after.begin());
    return after;
}

void Protection::carry_into(Decision& decision, const RoundPlan* plan) const {
    if (!rules.on) return;
    decision.standings = standings_after(decision, plan);
    decision.sizes = sizes_after(decision);
}

Ok Protection::check_carried(const Decision& decision, const RoundPlan* plan) const {
    if (!rules.on) return {};
    if (decision.standings != standings_after(decision, plan))
        return unprotected("what it says of who is at work does not follow");
    if (decision.sizes != sizes_after(decision))
        return unprotected("what it says of honest steps does not follow");
    return {};
}

Ok check_protection_shape(const Decision& decision) {
    const auto disorder = [](const Standing& a, const Standing& b) { return a.peer >= b.peer; };
    if (std::ranges::adjacent_find(decision.standings, disorder) != decision.standings.end())
        return unprotected("its standings are not in order");
    if (!std::ranges::all_of(decision.sizes, is_sound) || !is_sound(decision.size))
        return unprotected("the size of a step is no number");
    return {};
}

double step_scale(const Decision& decision, const RoundPlan& plan) {
    const bool longer = plan.length_max > 0 && decision.size.length > plan.length_max;
    return longer ? plan.length_max / decision.size.length : 1.0;
}

}  // namespace dedloc::consensus
