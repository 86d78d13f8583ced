#include "dedloc/collab/step_books.h"

#include <algorithm>
#include <limits>

namespace dedloc::collab {
namespace {

// Parts that a collector of a grid passed on are counted for their owner alone.
std::shared_ptr<const std::vector<events::StepShare>> shares_of(const consensus::Decision& decision,
                                                                const consensus::RoundPlan& plan,
                                                                std::uint64_t elements) {
    const auto moved = static_cast<double>(consensus::moved_range(plan).count);
    std::vector<events::StepShare> shares;
    for (const consensus::PlanMember& member : plan.members)
        shares.push_back({.peer = member.peer});
    for (std::size_t p = 0; p < plan.parts.size() && p < decision.parts.size(); ++p) {
        const consensus::PlanPart& part = plan.parts[p];
        if (part.owner < shares.size() && moved > 0)
            shares[part.owner].owned += static_cast<double>(part.count) / moved;
        for (std::size_t member = 0; member < plan.members.size(); ++member)
            if (decision.parts[p].includes(member))
                shares[member].samples +=
                    consensus::included_samples(plan.members[member].input, part.range(), elements);
    }
    return std::make_shared<const std::vector<events::StepShare>>(std::move(shares));
}

}  // namespace

void StepBooks::committed(const consensus::Decision& decision,
                          const consensus::RoundPlan& plan,
                          std::optional<TimePoint> planned,
                          std::vector<allreduce::LeftOut> left_out) {
    Contributions& ours = context_.contributions;
    const std::optional<std::size_t> mine = ours.place_in(plan, context_.host.id());
    if (planned) context_.report.planned(decision.instance, *planned, ours.fresh_handed_in_at());
    context_.listener.decided(fate_of(plan, decision, mine), plan.leader);
    context_.claims.committed(ours.handed_in_at(mine));
    if (std::ranges::any_of(left_out, [](const auto& one) { return !one.rest; }))
        context_.teller.tell(
            events::UnsentLost{},
            {},
            "what this peer left out of a sum of others' contributions, to send it "
            "later, is lost: too many rounds were tried since");
    ours.committed(plan, decision, mine, std::move(left_out));
}

// The fate of our contribution, which is number `mine` of the plan.
BackOff::Fate StepBooks::fate_of(const consensus::RoundPlan& plan,
                                 const consensus::Decision& decision,
                                 std::optional<std::size_t> mine) const {
    using Fate = BackOff::Fate;
    const auto& handed_in = context_.contributions.handed_in();
    if (!handed_in || handed_in->is_empty()) return Fate::missing;
    if (!mine) return plan.leaves_out(context_.host.id()) ? Fate::left_out : Fate::missing;
    return consensus::has_reached_others(plan, decision, *mine).value_or(true) ? Fate::taken
                                                                               : Fate::late;
}

events::StepMade StepBooks::applied(const consensus::Decision& decision,
                                    const consensus::RoundPlan& plan,
                                    const optim::UpdateReport& optimizer,
                                    const Digest& state_hash) {
    const std::uint64_t elements = context_.options.layout.vector_count();
    const TimePoint now = context_.node.clock.now();
    events::StepMade made{
        .step = decision.instance.step + 1,
        .samples = consensus::committed_samples(plan, decision.parts, elements),
        .samples_total = decision.branch_samples,
        .members = static_cast<std::uint64_t>(std::ranges::count_if(
            plan.members, [](const auto& member) { return !member.aggregator; })),
        .contributors = 0,
        .left_out = plan.left_out.size(),
        .attempt = decision.instance.attempt,
        // A peer that slept applies many steps in a row: what it last handed in is in none of them.
        .loss = context_.contributions.loss_in(decision.instance)
                    .value_or(std::numeric_limits<double>::quiet_NaN()),
        .learning_rate = optimizer.learning_rate,
        .predicted_s = plan.predicted_ms / 1e3,
        .state_hash = state_hash};
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        const consensus::PlanMember& member = plan.members[i];
        const bool is_in_it = is_in(decision, plan, i);
        if (is_in_it) ++made.contributors;
        if (is_in_it || member.aggregator) context_.membership.contributed(member.peer);
    }
    const auto has_contributed = [this](const PeerId& peer) {
        return context_.membership.has_contributed(peer);
    };
    context_.claims.promises().step_made(has_contributed, now);
    context_.report.applied(decision.instance, now, made);
    made.gradient_norm = optimizer.gradient_norm;
    made.shares = shares_of(decision, plan, elements);
    return made;
}

void StepBooks::begin_anew() {
    if (context_.contributions.has_unsent())
        context_.teller.tell(events::UnsentLost{},
                             {},
                             "another state takes the place of this peer's: what it had not sent "
                             "yet belongs to none");
    context_.contributions.forget();
    context_.claims.forget();
    context_.report.begin_anew(context_.node.clock.now());
    context_.listener.state_replaced();
}

}  // namespace dedloc::collab
