#include "dedloc/averaging/plan_phase.h"

#include <algorithm>

#include "dedloc/wire/message.h"

namespace dedloc::averaging {

Task<PhaseEnd> PlanPhase::begin(std::shared_ptr<Attempt> attempt) {
    RoundQuestion question{.base = attempt->base,
                           .ballot = attempt->ballot,
                           .me = environment_.me(),
                           .options = environment_.options,
                           .announces = announces_for(attempt->base),
                           .computing_s = parts_.open.computing_s(),
                           .usual_round = parts_.open.usual_round(),
                           .average_takes = attempt->average_takes,
                           .last_came = last_came(attempt->base)};
    for (const auto& [peer, announce] : question.announces)
        if (!parts_.scores.may_own(peer) ||
            parts_.exchanges.state().failed_owners.broke_protocol(peer, environment_.now()))
            question.not_owners.insert(peer);
    auto planned = plan_round(question);
    if (!planned) co_return PhaseEnd::go_on;  // the attempt is aborted by all
    const Ok enough = attempt->base.protection.check_minimum(
        planned->plan, /*parts=*/{}, attempt->base.number, attempt->base.voters);
    if (!enough && !leaves_out_minimum(environment_.options.bugs, attempt->base)) {
        environment_.teller.tell(events::RoundFailed{}, {}, "waiting: " + enough.error().message());
        co_return PhaseEnd::go_on;
    }
    environment_.teller.tell(
        std::move(planned->event), environment_.me(), std::move(planned->text));
    attempt->exchange = send_plan(std::move(planned->plan));
    co_return PhaseEnd::go_on;
}

std::optional<LastToCome> PlanPhase::last_came(const consensus::Base& base) const {
    std::vector<std::pair<TimePoint, PeerId>> came;
    if (const auto since = parts_.open.handed_in_at()) came.emplace_back(*since, environment_.me());
    for (const auto& [peer, announced] : parts_.announcements.fresh(base))
        if (!announced->announce.input.is_empty()) came.emplace_back(announced->brought_at, peer);
    if (came.size() < 2) return std::nullopt;
    std::ranges::sort(came);
    const auto& [at, peer] = came.back();
    return LastToCome{.peer = peer, .seconds = to_seconds(at - came[came.size() - 2].first)};
}

std::map<PeerId, Announce> PlanPhase::announces_for(const consensus::Base& base) const {
    std::map<PeerId, Announce> announces;
    announces[environment_.me()] = own_announcement(parts_, base);
    if (plans_alone(environment_.options.bugs, base)) return announces;
    for (const auto& [peer, announced] : parts_.announcements.fresh(base)) {
        if (announces.size() >= environment_.options.members_max) break;
        announces[peer] = announced->announce;
    }
    for (const auto& [peer, announced] : parts_.announcements.fresh(base, /*of_aggregators=*/true))
        if (announces.size() < environment_.options.members_max && announced->announce.dialable &&
            !parts_.exchanges.state().failed_owners.contains(peer, environment_.now()))
            announces[peer] = announced->announce;
    return announces;
}

std::shared_ptr<allreduce::Exchange> PlanPhase::send_plan(consensus::RoundPlan plan) {
    allreduce::Signed message;
    message.payload = wire::encode(plan);
    if (plan.members.size() > 1) {
        message.signature = environment_.signer.sign(consensus::plan_domain, message.payload);
        const Bytes bytes = wire::encode(message);
        for (const consensus::PlanMember& member : plan.members)
            if (member.peer != environment_.me())
                parts_.scope.spawn("send plan", send(parts_, member.peer, plan_method, bytes));
    }
    const Digest digest = consensus::decision_digest(message.payload);
    return begin_exchange(parts_, std::move(plan), digest);
}

}  // namespace dedloc::averaging
