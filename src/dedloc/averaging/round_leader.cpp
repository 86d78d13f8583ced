// The leader's side of a round: gather, plan (round_plan.cpp), reduce, repair; then
// round_decide.cpp.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/allreduce/held_parts.h"
#include "dedloc/averaging/round.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// How often a leader to whom nobody announces gives way, at least, before it goes on alone; and not
// before a quorum would be given up.
constexpr std::uint32_t lonely_turns_max = 3;

// What statuses and the like cost with each peer, at most; and the part of an average that must
// have gone over the line beside that, before anybody is taken to fetch one.
constexpr double talk_bytes_per_s = 4e3;
constexpr double fetched_least = 1.0 / 32;
constexpr double steps_caught_up = 2;  // by newcomers, while the only voter makes one

std::set<std::uint32_t> owners_of(const allreduce::Exchange& exchange,
                                  const std::vector<std::uint32_t>& parts) {
    std::set<std::uint32_t> owners;
    for (const std::uint32_t part : parts) owners.merge(exchange.collected().way_of(part));
    return owners;
}

// Owners' streams that fail are seen at once; a silent owner at the reduce deadline plus this.
constexpr Duration return_grace = 50ms;
constexpr Duration silence_look = 50ms;  // whether owners who were slow still send averages

}  // namespace

Task<void> RoundEngine::send(PeerId peer, std::string method, Bytes message) {
    const TimePoint deadline = context_.now() + context_.patience.with_answer();
    (void)co_await context_.host.call(peer, method, std::move(message), deadline);
}

std::vector<std::pair<PeerId, const RoundEngine::Announced*>> RoundEngine::fresh_announcements(
    const consensus::Base& base, bool of_aggregators) const {
    const Duration age_max = std::max<Duration>(context_.options.announce_interval * 4,
                                                context_.patience.with_answer() * 2);
    std::vector<std::pair<PeerId, const Announced*>> fresh;
    for (const auto& [peer, announced] : announced_)
        if (announced.announce.previous == base.previous &&
            announced.announce.aggregator == of_aggregators &&
            context_.now() - announced.at < age_max)
            fresh.emplace_back(peer, &announced);
    return fresh;
}

Duration RoundEngine::usual_deadline() const {
    return std::clamp<Duration>(std::max(pace_.usual() * 3, context_.patience.newest_round()),
                                context_.options.deadline_min,
                                context_.options.deadline_max);
}

Task<void> RoundEngine::lead(consensus::Base base) {
    if (!base.is_voter(context_.me())) {
        co_await open_branch(base);
        co_return;
    }
    const std::uint32_t ballot = proposer_->next_ballot(base);
    if (ballot > 0 && !context_.options.bugs.skip_prepare) {
        const bool promised = co_await proposer_->prepare(base, ballot, usual_deadline());
        if (!promised) {
            if (quorum_is_lost()) co_await open_branch(base);
            // Whoever announces itself meanwhile is no reason to ask all voters again.
            co_await context_.node.clock.sleep_for(proposer_->pause_before_prepare());
            co_return;
        }
    }
    (void)co_await gather(base);
    // A step of ours would be a lonely one, and its ballot might win.
    if (others_follow_another(base) &&
        (lonely_turns_ < lonely_turns_max ||
         context_.now() - lonely_since_ < context_.options.quorum_timeout)) {
        if (lonely_turns_++ == 0) lonely_since_ = context_.now();
        co_await pause(context_.options.announce_interval);
        co_return;
    }
    auto plan = make_plan(base, ballot);
    std::shared_ptr<allreduce::Exchange> exchange;
    if (plan) {
        exchange = send_plan(*std::move(plan));
        co_await reduce(exchange);
    }
    const consensus::Decision decision = make_decision(base, exchange.get());
    if (decision.kind == consensus::DecisionKind::abort) {
        const RoundNote note{RoundNote::Kind::aborted, {}, "a round ended without a whole average"};
        context_.listener.note(note);
    }
    Bytes bytes = wire::encode(decision);
    const bool decided =
        co_await proposer_->propose(base, ballot, std::move(bytes), usual_deadline());
    if (decided) co_return;
    if (quorum_is_lost()) co_await open_branch(base);
    co_await pause(context_.options.announce_interval);
}

Task<void> RoundEngine::open_branch(consensus::Base base) {
    if (!quorum_is_lost() || !base.state) {
        co_await pause(context_.options.announce_interval);
        co_return;
    }
    auto those_left = [this, base](const std::set<PeerId>& refused) {
        return survivors(base, refused);
    };
    co_await proposer_->open_branch(base, those_left);
}

// Those who announced to us, and we.
std::vector<consensus::Voter> RoundEngine::survivors(const consensus::Base& base,
                                                     const std::set<PeerId>& refused) const {
    std::map<PeerId, consensus::Voter> survivors;
    survivors[context_.me()] = {
        context_.me(), acceptor_->incarnation(), !context_.host.addresses().empty()};
    for (const auto& [peer, announced] : announced_)
        if (announced.announce.previous == base.previous && !refused.contains(peer) &&
            !announced.announce.aggregator &&
            context_.now() - announced.at < context_.patience.with_answer() * 2)
            survivors[peer] = {peer, announced.announce.incarnation, announced.announce.dialable};
    std::vector<consensus::Voter> voters;
    for (auto& [peer, voter] : survivors) voters.push_back(std::move(voter));
    return voters;
}

// Voters aside, those who want to hear of a certificate.
std::set<PeerId> RoundEngine::audience() const {
    std::set<PeerId> audience;
    for (const auto& [peer, announced] : announced_) audience.insert(peer);
    for (const PeerId& peer : context_.roster.live_trainers()) audience.insert(peer);
    return audience;
}

// Nobody came who brings anything, and yet others are there.
bool RoundEngine::others_follow_another(const consensus::Base& base) const {
    std::set<PeerId> here;
    for (const auto& [peer, announced] : fresh_announcements(base)) {
        if (announced->announce.input.weight_max() > 0) return false;
        here.insert(peer);
    }
    return std::ranges::any_of(context_.roster.expected(base),
                               [&here](const PeerId& peer) { return !here.contains(peer); });
}

// ---- gather -------------------------------------------------------------------------------------

// What one who trains alone makes while others load its state they have to fetch as well: it may
// not make it faster than its line carries it to them, or they would never come. At most a
// deadline, and as its line was used since the step before: none fetches where next to nothing went
// over it.
Duration RoundEngine::time_for_newcomers() {
    look_at_line();
    const links::Served served = served_.take();
    const double average =
        context_.options.element_bytes() * static_cast<double>(context_.options.vector_count);
    if (served.bytes < served.talk_bytes || served.bytes < average * fetched_least)
        return Duration(0);
    const double averages = served.bytes / average;
    average_takes_ = from_seconds(served.busy_seconds / averages);
    const auto newcomers = static_cast<double>(context_.roster.newcomers().size());
    const double seconds = steps_caught_up * newcomers * served.seconds / averages;
    return std::min<Duration>(from_seconds(seconds), context_.options.deadline_max);
}

void RoundEngine::look_at_line() {
    const auto peers = static_cast<double>(context_.roster.live_trainers().size());
    served_.look(context_.host.traffic().sent_bytes, context_.now(), peers * talk_bytes_per_s);
}

Task<bool> RoundEngine::gather(consensus::Base base) {
    context_.listener.round_wanted();
    const Duration micro_batch =
        from_seconds(std::clamp(context_.roster.micro_batch_s(), 0.0, 60.0));
    const Duration patience =
        std::min<Duration>(std::max<Duration>(usual_deadline() * 2 / 5, micro_batch * 2),
                           context_.options.deadline_max);
    // A leader that brings nothing may have looked on for long when the first contribution comes:
    // the others are not late before that.
    std::optional<TimePoint> since;
    bool was_lonely = false;
    // While another one may lead as well, nobody is held up.
    average_takes_ = Duration(0);
    const Duration of_newcomers = base.voters.size() == 1 ? time_for_newcomers() : Duration(0);
    for (;;) {
        std::uint64_t brought = 0;  // by others
        std::set<PeerId> here;
        for (const auto& [peer, announced] : fresh_announcements(base))
            brought += announced->announce.input.weight_max();
        const std::uint64_t weight = brought + (input_ ? input_->input.weight_max() : 0);
        for (const auto& [peer, announced] : announced_)
            if (announced.announce.previous == base.previous && !announced.announce.aggregator)
                here.insert(peer);
        if (weight == 0)
            since.reset();
        else if (!since)
            since = context_.now();
        std::vector<PeerId> missing;
        for (const PeerId& peer : context_.roster.expected(base))
            if (!here.contains(peer) && !not_waited_for_.contains(peer)) missing.push_back(peer);
        // Who may vote finds room.
        if (here.size() + 1 >= context_.options.members_max)
            std::erase_if(missing, [&base](const PeerId& peer) { return !base.is_voter(peer); });
        // Others live, but none who brings anything has announced and none is known to stand here:
        // they are about to, or will be when they have the state.
        const bool lonely = brought == 0 && std::ranges::any_of(context_.roster.live_trainers(),
                                                                [&here](const PeerId& peer) {
                                                                    return !here.contains(peer);
                                                                });
        if (missing.empty() && !lonely && input_ && weight > 0) co_return true;
        // The first newcomer is there, and the next ones may be about to come.
        if (was_lonely && !lonely && since) since = context_.now();
        was_lonely = lonely && of_newcomers > patience;
        const Duration time = lonely ? std::max(patience, of_newcomers) : patience;
        const TimePoint limit = since ? *since + time : TimePoint::never();
        if (context_.now() >= limit) {
            for (const PeerId& peer : missing) not_waited_for_.insert(peer);
            co_return false;
        }
        const TimePoint next = std::min(limit, context_.now() + 200ms);
        (void)co_await changed_.wait_until(context_.node.clock, next);
        // A machine that slept has waited for nobody meanwhile: what they sent is still to be read.
        if (since) since = *since + std::max(context_.now() - next, Duration(0));
    }
}

std::shared_ptr<allreduce::Exchange> RoundEngine::send_plan(consensus::Plan plan) {
    allreduce::Signed message;
    message.payload = wire::encode(plan);
    if (plan.members.size() > 1) {
        message.signature = context_.signer.sign(consensus::plan_domain, message.payload);
        const Bytes bytes = wire::encode(message);
        for (const consensus::PlanMember& member : plan.members)
            if (member.peer != context_.me())
                scope_.spawn("send plan", send(member.peer, plan_method, bytes));
    }
    const Digest digest = consensus::decision_digest(message.payload);
    return begin_exchange(std::move(plan), digest);
}

// ---- reduce and repair --------------------------------------------------------------------------

Task<void> RoundEngine::reduce(std::shared_ptr<allreduce::Exchange> exchange) {
    std::uint32_t repairs = 0;
    TimePoint silent_deadline = exchange->reduce_deadline() + return_grace;
    while (!exchange->complete() && context_.now() < exchange->round_deadline()) {
        const bool late = context_.now() >= silent_deadline;
        std::vector<std::uint32_t> parts =
            late ? exchange->collected().silent_parts() : exchange->collected().failed_parts();
        if (!parts.empty() && repairs < consensus::repairs_max) {
            ++repairs;
            co_await repair(exchange, parts, repairs);
            const Duration left = exchange->round_deadline() - context_.now();
            silent_deadline = context_.now() + std::max<Duration>(left / 2, 150ms) + return_grace;
            continue;
        }
        const TimePoint look = late ? context_.now() + silence_look : silent_deadline;
        const TimePoint next = std::min(look, exchange->round_deadline());
        (void)co_await exchange->changed().wait_until(context_.node.clock, next);
    }
    co_await include_more(exchange, repairs + 1);
}

// One more try for parts that leave out somebody who is there, for as long as a live owner needs.
Task<void> RoundEngine::include_more(std::shared_ptr<allreduce::Exchange> exchange,
                                     std::uint32_t number) {
    const std::vector<std::uint32_t> lacking = exchange->collected().lacking_parts();
    if (!exchange->complete() || lacking.empty() || number > consensus::repairs_max) co_return;
    const Duration left = exchange->round_deadline() - context_.now();
    if (left < context_.options.call_timeout / 4) co_return;
    send_repair(exchange, lacking, number);
    const TimePoint until = context_.now() + left / 2 + return_grace;
    // Whoever was refused will be again: what has been reduced once more is not waited for.
    const auto may_come = [&](std::uint32_t part) {
        return !exchange->collected().repaired(part, number);
    };
    while (!exchange->collected().lacking_parts().empty() && context_.now() < until &&
           std::any_of(lacking.begin(), lacking.end(), may_come))
        (void)co_await exchange->changed().wait_until(context_.node.clock, until);
}

// Somebody may hold a part that we miss; only what nobody has is reduced again, by another owner.
Task<void> RoundEngine::repair(std::shared_ptr<allreduce::Exchange> exchange,
                               std::vector<std::uint32_t> parts,
                               std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const consensus::Plan& plan = exchange->plan();
    std::vector<PeerId> members;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (!failed.contains(i) && plan.members[i].peer != context_.me())
            members.push_back(plan.members[i].peer);
    co_await allreduce::collect_held_parts(transfers_, exchange, members, parts);
    std::erase_if(parts, [&](std::uint32_t part) { return exchange->finished().contains(part); });
    if (!parts.empty()) send_repair(exchange, parts, number);
}

void RoundEngine::send_repair(const std::shared_ptr<allreduce::Exchange>& exchange,
                              const std::vector<std::uint32_t>& parts,
                              std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const consensus::Plan& plan = exchange->plan();
    std::vector<std::uint32_t> owners;
    for (const std::uint32_t standby : plan.standby)
        if (!failed.contains(standby) && (plan.members[standby].peer == context_.me() ||
                                          context_.host.is_connected(plan.members[standby].peer)))
            owners.push_back(standby);
    for (std::uint32_t i = 0; i < plan.members.size() && owners.empty(); ++i)
        if (plan.members[i].peer == context_.me()) owners.push_back(i);
    allreduce::Repair message;
    message.plan = exchange->digest();
    message.number = number;
    for (const std::uint32_t part : parts) {
        message.owners.push_back(owners[message.parts.size() % owners.size()]);
        message.parts.push_back(part);
    }
    const RoundNote note{RoundNote::Kind::repair,
                         plan.members[*failed.begin()].peer,
                         fmt::format("{} parts are reduced again", message.parts.size())};
    context_.listener.note(note);
    allreduce::Signed envelope;
    envelope.payload = wire::encode(message);
    envelope.signature = context_.signer.sign(allreduce::repair_domain, envelope.payload);
    const Bytes bytes = wire::encode(envelope);
    for (const consensus::PlanMember& member : plan.members)
        if (member.peer != context_.me())
            scope_.spawn("send repair", send(member.peer, allreduce::repair_method, bytes));
    exchange->add_repair(message);
}

// ---- the decision's value -----------------------------------------------------------------------

consensus::Decision RoundEngine::make_decision(const consensus::Base& base,
                                               const allreduce::Exchange* exchange) const {
    consensus::Decision decision;
    decision.kind = consensus::DecisionKind::abort;
    decision.run = base.run;
    decision.instance = base.instance;
    decision.previous = base.previous;
    decision.state_before = base.state.value_or(Digest{});
    decision.number = base.number + 1;
    decision.branch_samples = base.branch_samples;
    const consensus::Plan* plan = nullptr;
    if (exchange != nullptr && exchange->complete()) {
        std::vector<consensus::FinishedPart> parts;
        for (const auto& [index, part] : exchange->finished()) parts.push_back(part);
        const double samples =
            consensus::committed_samples(exchange->plan(), parts, context_.options.vector_count);
        if (samples > 0) {
            plan = &exchange->plan();
            decision.kind = consensus::DecisionKind::commit;
            decision.plan = wire::encode(*plan);
            decision.parts = std::move(parts);
            decision.branch_samples += samples;
        }
    }
    decision.next_voters = next_voters(base, decision, plan);
    return decision;
}

std::vector<consensus::Voter> RoundEngine::next_voters(const consensus::Base& base,
                                                       const consensus::Decision& decision,
                                                       const consensus::Plan* plan) const {
    std::map<PeerId, consensus::Voter> next;
    const auto leaves = [&](const PeerId& peer) {
        if (peer == context_.me()) return leaving_;
        const auto found = announced_.find(peer);
        return found != announced_.end() && found->second.announce.leaving;
    };
    if (plan != nullptr) {
        const std::vector<bool> included = consensus::included_members(decision, *plan);
        for (std::size_t i = 0; i < plan->members.size(); ++i) {
            const consensus::PlanMember& member = plan->members[i];
            if (leaves(member.peer) || member.aggregator) continue;
            const bool voted = base.voter_incarnation(member.peer) == member.incarnation;
            const bool earned = included[i] && context_.ledger.contributions(member.peer) + 1 >=
                                                   context_.options.voter_after_contributions;
            if (voted || earned)
                next[member.peer] = {member.peer, member.incarnation, member.dialable};
        }
    } else {
        for (const consensus::Voter& voter : base.voters) {
            const bool here = voter.peer == context_.me() || announced_.contains(voter.peer) ||
                              context_.host.is_connected(voter.peer);
            if (here && !leaves(voter.peer)) next[voter.peer] = voter;
        }
    }
    // Those who are left, and those who leave, were a majority; else the run would be one of a few.
    const auto stays_or_leaves = [&](const consensus::Voter& voter) {
        return next.contains(voter.peer) || leaves(voter.peer);
    };
    const auto kept = static_cast<std::size_t>(std::ranges::count_if(base.voters, stays_or_leaves));
    if (kept < consensus::majority(base.voters.size()))
        for (const consensus::Voter& voter : base.voters)
            if (!leaves(voter.peer)) next.emplace(voter.peer, voter);
    std::vector<consensus::Voter> voters;
    for (auto& [peer, voter] : next) voters.push_back(std::move(voter));
    return voters.empty() ? base.voters : voters;
}

}  // namespace dedloc::averaging
