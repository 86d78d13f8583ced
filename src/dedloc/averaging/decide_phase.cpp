#include "dedloc/averaging/decide_phase.h"

#include <algorithm>
#include <map>

#include "dedloc/wire/message.h"

namespace dedloc::averaging {

Task<PhaseEnd> DecidePhase::begin(std::shared_ptr<Attempt> attempt) {
    const consensus::Decision decision = make_decision(*attempt);
    if (decision.kind == consensus::DecisionKind::abort)
        environment_.teller.tell(
            events::RoundFailed{}, {}, "a round ended without a whole average");
    Bytes bytes = wire::encode(decision);
    attempt->decided = co_await proposer_.propose(
        attempt->base, attempt->ballot, std::move(bytes), parts_.open.usual_deadline());
    co_return PhaseEnd::go_on;
}

consensus::Decision DecidePhase::make_decision(const Attempt& attempt) const {
    const consensus::Base& base = attempt.base;
    const allreduce::Exchange* const exchange = attempt.exchange.get();
    const bool proved = !environment_.options.proves || !attempt.proof.is_zero();
    consensus::Decision decision;
    decision.kind = consensus::DecisionKind::abort;
    decision.run = base.run;
    decision.instance = base.instance;
    decision.previous = base.previous;
    decision.state_before = base.state.value_or(Digest{});
    decision.number = base.number + 1;
    decision.branch_samples = base.branch_samples;
    const consensus::RoundPlan* plan = nullptr;
    if (exchange != nullptr && exchange->complete() && proved) {
        std::vector<consensus::FinishedPart> parts = attempt.proved;
        if (!environment_.options.proves)
            for (const auto& [index, part] : exchange->finished()) parts.push_back(part);
        const double samples = consensus::committed_samples(
            exchange->plan(), parts, environment_.options.vector_count);
        const bool enough =
            leaves_out_minimum(environment_.options.bugs, base) ||
            base.protection.check_minimum(exchange->plan(), parts, base.number, base.voters);
        if (samples > 0 && enough) {
            plan = &exchange->plan();
            decision.kind = consensus::DecisionKind::commit;
            decision.plan = wire::encode(*plan);
            decision.parts = std::move(parts);
            decision.proof = attempt.proof;
            decision.size = attempt.size;
            decision.branch_samples += samples;
        }
    }
    decision.orders = judge_.orders_for(base, decision);
    decision.next_voters = next_voters(base, decision, plan);
    base.protection.carry_into(decision, plan);
    return decision;
}

std::vector<consensus::Voter> DecidePhase::next_voters(const consensus::Base& base,
                                                       const consensus::Decision& decision,
                                                       const consensus::RoundPlan* plan) const {
    std::map<PeerId, consensus::Voter> next;
    const robust::Orders orders(decision.orders);
    const std::uint64_t step = consensus::step_after(decision);
    const auto leaves = [&](const PeerId& peer) {
        if (orders.barring(peer, step) != nullptr || orders.on_probation(peer, step) ||
            environment_.roster.is_put_out(peer))
            return true;
        if (peer == environment_.me()) return parts_.open.leaving();
        return parts_.announcements.is_leaving(peer);
    };
    if (plan != nullptr) {
        const std::vector<bool> included = consensus::included_members(decision, *plan);
        for (std::size_t i = 0; i < plan->members.size(); ++i) {
            const consensus::PlanMember& member = plan->members[i];
            if (leaves(member.peer) || member.aggregator) continue;
            const bool voted = base.voter_incarnation(member.peer) == member.incarnation;
            const bool known =
                base.newcomers_weigh || orders.vouching(member.peer, step) != nullptr;
            const bool earned = known && included[i] &&
                                environment_.ledger.contributions(member.peer) + 1 >=
                                    environment_.options.voter_after_contributions;
            if (voted || earned)
                next[member.peer] = {member.peer, member.incarnation, member.dialable};
        }
    } else {
        for (const consensus::Voter& voter : base.voters) {
            const bool here = voter.peer == environment_.me() ||
                              parts_.announcements.all().contains(voter.peer) ||
                              environment_.host.is_connected(voter.peer);
            if (here && !leaves(voter.peer)) next[voter.peer] = voter;
        }
    }
    // Voters who stay and voters who leave were a majority; else the run would be one of a few.
    const auto stays_or_leaves = [&](const consensus::Voter& voter) {
        return next.contains(voter.peer) || leaves(voter.peer);
    };
    const auto kept = static_cast<std::size_t>(std::ranges::count_if(base.voters, stays_or_leaves));
    if (kept < base.quorum())
        for (const consensus::Voter& voter : base.voters)
            if (!leaves(voter.peer)) next.emplace(voter.peer, voter);
    std::vector<consensus::Voter> voters;
    for (auto& [peer, voter] : next) voters.push_back(std::move(voter));
    if (!voters.empty()) return voters;
    std::vector<consensus::Voter> allowed = base.voters;
    std::erase_if(allowed, [&](const consensus::Voter& voter) {
        return orders.barring(voter.peer, step) != nullptr || orders.on_probation(voter.peer, step);
    });
    return allowed;
}

}  // namespace dedloc::averaging
