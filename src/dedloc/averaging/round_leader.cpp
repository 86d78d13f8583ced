// The leader's side of a round: gather, plan, reduce, repair; then round_decide.cpp.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/averaging/held_parts.h"
#include "dedloc/averaging/round.h"
#include "dedloc/planner/split.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// How many parts an owner's share has at least, if the round takes long enough.
constexpr double pieces_wanted_max = 48;
constexpr double part_seconds_min = 0.05;
constexpr std::uint64_t piece_elements_min = 8192;
constexpr double rate_factor = 1000;  // between the usual rate and what is believed
// How often a leader to whom nobody announces gives way before it goes on alone.
constexpr std::uint32_t lonely_turns_max = 3;
constexpr double worth_it = 0.95;  // of the round's time without aggregators; more: without them

std::set<std::uint32_t> owners_of(const Exchange& exchange,
                                  const std::vector<std::uint32_t>& parts) {
    std::set<std::uint32_t> owners;
    for (const std::uint32_t part : parts) owners.insert(exchange.owner_of(part));
    return owners;
}

// Both ends of every pair that has no way to each other: neither can own what the other brings. Who
// names most of the others is itself the one that is cut off.
std::set<PeerId> parted_peers(const std::map<PeerId, Announce>& announces) {
    std::set<PeerId> parted;
    for (const auto& [peer, announce] : announces) {
        std::set<PeerId> others;
        for (const PeerId& other : announce.unreachable)
            if (announces.contains(other)) others.insert(other);
        if (others.empty()) continue;
        parted.insert(peer);
        if (others.size() * 2 < announces.size()) parted.merge(others);
    }
    return parted;
}

// The median of the uplinks that were measured: what is assumed of the others.
double usual_rate(const std::map<PeerId, Announce>& announces, double if_none) {
    std::vector<double> measured;
    for (const auto& [peer, announce] : announces)
        if (!announce.aggregator && std::isfinite(announce.upload_bytes_per_s) &&
            announce.upload_bytes_per_s > 0)
            measured.push_back(announce.upload_bytes_per_s);
    if (measured.empty()) return if_none;
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::nth_element(measured.begin(), middle, measured.end());
    return *middle;
}

// A peer's own claim: nobody's line is beyond all measure of the others'.
double plausible_rate(double claimed, double usual) {
    if (!std::isfinite(claimed) || claimed <= 0) return usual;
    return std::clamp(claimed, usual / rate_factor, usual * rate_factor);
}

std::string describe(const Plan& plan) {
    const auto aggregators = std::ranges::count_if(
        plan.members, [](const PlanMember& member) { return member.aggregator; });
    std::string text =
        fmt::format("step {}: {} members{}, {} parts",
                    plan.instance.step,
                    plan.members.size() - static_cast<std::size_t>(aggregators),
                    aggregators == 0 ? "" : fmt::format(" and {} aggregators", aggregators),
                    plan.parts.size());
    constexpr std::size_t members_told_max = 8;
    if (plan.members.size() > members_told_max || plan.parts.empty()) return text;
    std::vector<double> shares(plan.members.size(), 0.0);
    for (const PlanPart& part : plan.parts)
        shares[part.owner] += 100.0 * static_cast<double>(part.count) /
                              static_cast<double>(plan.parts.back().range().end());
    text += " (";
    for (std::size_t i = 0; i < shares.size(); ++i)
        text += fmt::format("{}{:.0f}", i == 0 ? "" : " + ", shares[i]);
    return text + " %)";
}

// Owners' streams that fail are seen at once; a silent owner at the reduce deadline plus this.
constexpr Duration return_grace = 50ms;
constexpr Duration silence_look = 50ms;  // whether owners who were slow still send averages

}  // namespace

Task<void> RoundEngine::send(PeerId peer, std::string method, Bytes message) {
    const TimePoint deadline = context_.now() + context_.patience();
    (void)co_await context_.host.call(peer, method, std::move(message), deadline);
}

std::vector<std::pair<PeerId, const RoundEngine::Announced*>> RoundEngine::fresh_announcements(
    const Base& base, bool of_aggregators) const {
    const Duration age_max =
        std::max<Duration>(context_.options.announce_interval * 4, context_.patience() * 2);
    std::vector<std::pair<PeerId, const Announced*>> fresh;
    for (const auto& [peer, announced] : announced_)
        if (announced.announce.previous == base.previous &&
            announced.announce.aggregator == of_aggregators &&
            context_.now() - announced.at < age_max)
            fresh.emplace_back(peer, &announced);
    return fresh;
}

Duration RoundEngine::usual_deadline() const {
    return std::clamp<Duration>(std::max(measured_round_ * 3, context_.newest_round),
                                context_.options.deadline_min,
                                context_.options.deadline_max);
}

Task<void> RoundEngine::lead(Base base) {
    if (!base.is_voter(context_.me())) {
        co_await open_branch(base);
        co_return;
    }
    const std::uint32_t ballot = next_ballot(base);
    if (ballot > 0 && !context_.options.bugs.skip_prepare) {
        const std::shared_ptr<Poll> poll = co_await prepare(base, ballot);
        if (!poll) {
            if (quorum_is_lost()) co_await open_branch(base);
            co_await pause(context_.options.announce_interval);
            co_return;
        }
    }
    (void)co_await gather(base);
    // Nobody came and yet others are there: they follow another leader. A step of ours would be a
    // lonely one, and its ballot might win.
    if (fresh_announcements(base).empty() && !context_.directory.expected(base).empty() &&
        lonely_turns_ < lonely_turns_max) {
        ++lonely_turns_;
        co_await pause(context_.options.announce_interval);
        co_return;
    }
    auto plan = make_plan(base, ballot);
    std::shared_ptr<Exchange> exchange;
    if (plan) {
        exchange = send_plan(*std::move(plan));
        co_await reduce(exchange);
    }
    const Decision decision = make_decision(base, exchange.get());
    if (decision.kind == DecisionKind::abort) {
        const RoundNote note{RoundNote::Kind::aborted, {}, "a round ended without a whole average"};
        context_.directory.note(note);
    }
    Bytes bytes = wire::encode(decision);
    const bool decided = co_await propose(base, ballot, std::move(bytes), usual_deadline());
    if (decided) co_return;
    if (quorum_is_lost()) co_await open_branch(base);
    co_await pause(context_.options.announce_interval);
}

// ---- gather -------------------------------------------------------------------------------------

Task<bool> RoundEngine::gather(Base base) {
    context_.directory.round_wanted();
    const Duration micro_batch =
        from_seconds(std::clamp(context_.directory.micro_batch_s(), 0.0, 60.0));
    const Duration patience =
        std::min<Duration>(std::max<Duration>(usual_deadline() * 2 / 5, micro_batch * 2),
                           context_.options.deadline_max);
    // A leader that brings nothing may have looked on for long when the first contribution comes:
    // the others are not late before that.
    TimePoint limit = TimePoint::never();
    for (;;) {
        std::uint64_t weight = input_ ? input_->input.weight_max() : 0;
        std::set<PeerId> here;
        for (const auto& [peer, announced] : fresh_announcements(base))
            weight += announced->announce.input.weight_max();
        for (const auto& [peer, announced] : announced_)
            if (announced.announce.previous == base.previous && !announced.announce.aggregator)
                here.insert(peer);
        limit = weight > 0 ? std::min(limit, context_.now() + patience) : TimePoint::never();
        std::vector<PeerId> missing;
        for (const PeerId& peer : context_.directory.expected(base))
            if (!here.contains(peer) && !not_waited_for_.contains(peer)) missing.push_back(peer);
        // Others live, but none has announced and none is known to stand here: they are about to.
        const bool lonely = here.empty() && !context_.directory.live_trainers().empty();
        if (missing.empty() && !lonely && input_ && weight > 0) co_return true;
        if (context_.now() >= limit) {
            for (const PeerId& peer : missing) not_waited_for_.insert(peer);
            co_return false;
        }
        const TimePoint next = std::min(limit, context_.now() + 200ms);
        (void)co_await changed_.wait_until(context_.node.clock, next);
    }
}

// ---- plan ---------------------------------------------------------------------------------------

// An average goes back while later parts still come, and when the last part has come its average is
// still to go back: the more parts, the shorter that end. Fewer where a part would take no time.
void RoundEngine::set_parts(Plan& plan,
                            const std::vector<std::uint64_t>& shares,
                            double seconds) const {
    const auto wanted =
        static_cast<std::uint64_t>(std::clamp(seconds / part_seconds_min, 1.0, pieces_wanted_max));
    const std::uint64_t elements_min =
        std::min(piece_elements_min, context_.options.part_elements_max);
    std::uint64_t position = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        // Equal parts within a share, so that none is a crumb.
        const std::uint64_t fewest = (shares[i] + context_.options.part_elements_max - 1) /
                                     context_.options.part_elements_max;
        const std::uint64_t pieces = std::max(fewest, std::min(wanted, shares[i] / elements_min));
        for (std::uint64_t k = 0; k < pieces; ++k) {
            const std::uint64_t count = shares[i] * (k + 1) / pieces - shares[i] * k / pieces;
            plan.parts.push_back({position, count, static_cast<std::uint32_t>(i)});
            position += count;
        }
    }
}

struct RoundEngine::Division {
    std::map<PeerId, Announce> announces;
    std::vector<bool> may_own;
    planner::Split split;
    std::string gain{};  // what the aggregators are for, in words
};

std::map<PeerId, Announce> RoundEngine::announces_for(const Base& base) {
    std::map<PeerId, Announce> announces;
    announces[context_.me()] = own_announcement(base);
    for (const auto& [peer, announced] : fresh_announcements(base)) {
        if (announces.size() >= context_.options.group_max) break;
        announces[peer] = announced->announce;
    }
    for (const auto& [peer, announced] : fresh_announcements(base, /*of_aggregators=*/true))
        if (announces.size() < members_max && announced->announce.dialable &&
            !context_.failed_owners.contains(peer, context_.now()))
            announces[peer] = announced->announce;
    return announces;
}

Result<RoundEngine::Division> RoundEngine::divide(
    const std::map<PeerId, Announce>& announces) const {
    const std::set<PeerId> parted = parted_peers(announces);
    std::vector<planner::PeerRates> rates;
    const double element_bytes =
        static_cast<double>(codec::encoded_size(context_.options.codec, 1024)) / 1024;
    const double usual = usual_rate(announces, context_.options.rate_unknown);
    for (const auto& [peer, announce] : announces) {
        const auto per_s = [&](double bytes) {
            return plausible_rate(bytes, usual) / element_bytes;
        };
        planner::PeerRates rate;
        rate.upload_per_s = per_s(announce.upload_bytes_per_s);
        rate.download_per_s = per_s(announce.download_bytes_per_s);
        rate.contributes = !announce.input.is_empty();
        rate.receives = !announce.aggregator;
        // Whoever cannot be dialled cannot be sure that every member has a connection to it.
        rate.owns_allowed = announce.dialable && !announce.leaving && !parted.contains(peer);
        rates.push_back(rate);
    }
    if (std::none_of(rates.begin(), rates.end(), [](const auto& rate) { return rate.contributes; }))
        return make_error(ErrorKind::not_found, "nobody has anything to average");
    planner::SplitOptions split_options;
    split_options.part_elements_min = context_.options.part_elements_min;
    auto split = planner::split_elements(rates, context_.options.vector_count, split_options);
    if (!split) {  // nobody may own: the leader does, as everybody who announced reached it
        std::size_t place = 0;
        for (const auto& [peer, announce] : announces)
            rates[place++].owns_allowed = peer == context_.me();
        split = planner::split_elements(rates, context_.options.vector_count, split_options);
    }
    if (!split) return std::move(split).error();
    Division division{.announces = announces, .may_own = {}, .split = *std::move(split)};
    for (const planner::PeerRates& rate : rates) division.may_own.push_back(rate.owns_allowed);
    return division;
}

// Aggregators take part where the round becomes faster by as much as they are worth: each is one
// more machine that may fail. Those who would own nothing stay away.
Result<RoundEngine::Division> RoundEngine::divide_with_aggregators(
    std::map<PeerId, Announce> announces) const {
    auto with = divide(announces);
    std::map<PeerId, Announce> trainers = announces;
    std::erase_if(trainers, [](const auto& entry) { return entry.second.aggregator; });
    if (trainers.size() == announces.size()) return with;
    auto without = divide(trainers);
    if (!with) return without;
    double share = 0;
    std::size_t place = 0;
    std::size_t helping = 0;
    for (const auto& [peer, announce] : with->announces) {
        const std::uint64_t owned = with->split.part_elements[place++];
        if (!announce.aggregator) continue;
        if (owned == 0)
            announces.erase(peer);
        else
            ++helping;
        share += static_cast<double>(owned);
    }
    if (without && (helping == 0 || with->split.seconds >= without->split.seconds * worth_it))
        return without;
    with = divide(announces);
    if (with && without)
        with->gain = fmt::format(
            "; {} aggregators take {:.0f} %: {:.3g} s predicted instead of "
            "{:.3g} s",
            helping,
            100 * share / static_cast<double>(context_.options.vector_count),
            with->split.seconds,
            without->split.seconds);
    return with;
}

Result<Plan> RoundEngine::make_plan(const Base& base, std::uint32_t ballot) {
    Plan plan;
    plan.run = base.run;
    plan.instance = base.instance;
    plan.ballot = ballot;
    plan.leader = context_.me();
    plan.previous = base.previous;
    plan.state = base.state.value_or(Digest{});
    plan.codec = static_cast<std::uint32_t>(context_.options.codec);
    DEDLOC_TRY(const Division division, divide_with_aggregators(announces_for(base)));
    for (const auto& [peer, announce] : division.announces)
        plan.members.push_back(
            {peer, announce.incarnation, announce.input, announce.dialable, announce.aggregator});
    set_parts(plan, division.split.part_elements, division.split.seconds);
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (division.may_own[i]) plan.standby.push_back(i);
    const Duration whole = std::clamp<Duration>(
        std::max<Duration>(measured_round_ * 3, from_seconds(division.split.seconds * 3)),
        context_.options.deadline_min,
        context_.options.deadline_max);
    plan.round_ms = static_cast<std::uint32_t>(whole / 1ms);
    plan.reduce_ms = plan.round_ms / 2;
    const RoundNote note{RoundNote::Kind::plan_made, context_.me(), describe(plan) + division.gain};
    context_.directory.note(note);
    return plan;
}

std::shared_ptr<Exchange> RoundEngine::send_plan(Plan plan) {
    Signed message;
    message.payload = wire::encode(plan);
    plan_sent_ = context_.now();
    if (plan.members.size() > 1) {
        message.signature = context_.signer.sign(plan_domain, message.payload);
        const Bytes bytes = wire::encode(message);
        for (const PlanMember& member : plan.members)
            if (member.peer != context_.me())
                scope_.spawn("send plan", send(member.peer, plan_method, bytes));
    }
    const Digest digest = decision_digest(message.payload);
    return begin_exchange(std::move(plan), digest);
}

// ---- reduce and repair --------------------------------------------------------------------------

Task<void> RoundEngine::reduce(std::shared_ptr<Exchange> exchange) {
    std::uint32_t repairs = 0;
    TimePoint silent_deadline = exchange->reduce_deadline() + return_grace;
    while (!exchange->complete() && context_.now() < exchange->round_deadline()) {
        const bool late = context_.now() >= silent_deadline;
        std::vector<std::uint32_t> parts =
            late ? exchange->silent_parts() : exchange->failed_parts();
        if (!parts.empty() && repairs < repairs_max) {
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
Task<void> RoundEngine::include_more(std::shared_ptr<Exchange> exchange, std::uint32_t number) {
    const std::vector<std::uint32_t> lacking = exchange->lacking_parts();
    if (!exchange->complete() || lacking.empty() || number > repairs_max) co_return;
    const Duration left = exchange->round_deadline() - context_.now();
    if (left < context_.options.call_timeout / 4) co_return;
    send_repair(exchange, lacking, number);
    const TimePoint until = context_.now() + left / 2 + return_grace;
    // Whoever was refused will be again: what has been reduced once more is not waited for.
    const auto may_come = [&](std::uint32_t part) { return !exchange->repaired(part, number); };
    while (!exchange->lacking_parts().empty() && context_.now() < until &&
           std::any_of(lacking.begin(), lacking.end(), may_come))
        (void)co_await exchange->changed().wait_until(context_.node.clock, until);
}

// Somebody may hold a part that we miss; only what nobody has is reduced again, by another owner.
Task<void> RoundEngine::repair(std::shared_ptr<Exchange> exchange,
                               std::vector<std::uint32_t> parts,
                               std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const Plan& plan = exchange->plan();
    std::vector<PeerId> members;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (!failed.contains(i) && plan.members[i].peer != context_.me())
            members.push_back(plan.members[i].peer);
    co_await collect_held_parts(context_, exchange, members, parts);
    std::erase_if(parts, [&](std::uint32_t part) { return exchange->finished().contains(part); });
    if (!parts.empty()) send_repair(exchange, parts, number);
}

void RoundEngine::send_repair(const std::shared_ptr<Exchange>& exchange,
                              const std::vector<std::uint32_t>& parts,
                              std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const Plan& plan = exchange->plan();
    std::vector<std::uint32_t> owners;
    for (const std::uint32_t standby : plan.standby)
        if (!failed.contains(standby) && (plan.members[standby].peer == context_.me() ||
                                          context_.host.is_connected(plan.members[standby].peer)))
            owners.push_back(standby);
    for (std::uint32_t i = 0; i < plan.members.size() && owners.empty(); ++i)
        if (plan.members[i].peer == context_.me()) owners.push_back(i);
    Repair message;
    message.plan = exchange->digest();
    message.number = number;
    for (const std::uint32_t part : parts) {
        message.owners.push_back(owners[message.parts.size() % owners.size()]);
        message.parts.push_back(part);
    }
    const RoundNote note{RoundNote::Kind::repair,
                         plan.members[*failed.begin()].peer,
                         fmt::format("{} parts are reduced again", message.parts.size())};
    context_.directory.note(note);
    Signed envelope;
    envelope.payload = wire::encode(message);
    envelope.signature = context_.signer.sign(repair_domain, envelope.payload);
    const Bytes bytes = wire::encode(envelope);
    for (const PlanMember& member : plan.members)
        if (member.peer != context_.me())
            scope_.spawn("send repair", send(member.peer, repair_method, bytes));
    exchange->add_repair(message);
}

// ---- the decision's value -----------------------------------------------------------------------

Decision RoundEngine::make_decision(const Base& base, const Exchange* exchange) const {
    Decision decision;
    decision.kind = DecisionKind::abort;
    decision.run = base.run;
    decision.instance = base.instance;
    decision.previous = base.previous;
    decision.state_before = base.state.value_or(Digest{});
    decision.number = base.number + 1;
    decision.branch_samples = base.branch_samples;
    const Plan* plan = nullptr;
    if (exchange != nullptr && exchange->complete()) {
        std::vector<FinishedPart> parts;
        for (const auto& [index, part] : exchange->finished()) parts.push_back(part);
        const double samples =
            committed_samples(exchange->plan(), parts, context_.options.vector_count);
        if (samples > 0) {
            plan = &exchange->plan();
            decision.kind = DecisionKind::commit;
            decision.plan = wire::encode(*plan);
            decision.parts = std::move(parts);
            decision.branch_samples += samples;
        }
    }
    decision.next_voters = next_voters(base, decision, plan);
    return decision;
}

std::vector<Voter> RoundEngine::next_voters(const Base& base,
                                            const Decision& decision,
                                            const Plan* plan) const {
    std::map<PeerId, Voter> next;
    const auto leaves = [&](const PeerId& peer) {
        if (peer == context_.me()) return leaving_;
        const auto found = announced_.find(peer);
        return found != announced_.end() && found->second.announce.leaving;
    };
    if (plan != nullptr) {
        const std::vector<bool> included = included_members(decision, *plan);
        for (std::size_t i = 0; i < plan->members.size(); ++i) {
            const PlanMember& member = plan->members[i];
            if (leaves(member.peer) || member.aggregator) continue;
            const bool voted = base.voter_incarnation(member.peer) == member.incarnation;
            const bool earned = included[i] && context_.ledger.contributions(member.peer) + 1 >=
                                                   context_.options.voter_after_contributions;
            if (voted || earned)
                next[member.peer] = {member.peer, member.incarnation, member.dialable};
        }
    } else {
        for (const Voter& voter : base.voters) {
            const bool here = voter.peer == context_.me() || announced_.contains(voter.peer) ||
                              context_.host.is_connected(voter.peer);
            if (here && !leaves(voter.peer)) next[voter.peer] = voter;
        }
    }
    std::vector<Voter> voters;
    for (auto& [peer, voter] : next) voters.push_back(std::move(voter));
    return voters.empty() ? base.voters : voters;
}

}  // namespace dedloc::averaging
