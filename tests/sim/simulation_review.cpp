#include "tests/sim/simulation_review.h"

#include <algorithm>
#include <fmt/format.h>

namespace dedloc::lab {

void SimulationReview::check_chains(TimePoint until) {
    checkers_.finish(
        [this](const PeerId& peer, TimePoint from, TimePoint to) {
            return peer.is_empty() ? all_undisturbed(from, to) : undisturbed(peer, from, to);
        },
        until);
    check_pace();
    check_nobody_is_alone();
    check_branches();
    check_aggregators();
    check_left_out();
    if (run_.run.robust) check_minimum();
}

// When the first peer stood on the state that this decision makes.
std::optional<TimePoint> SimulationReview::made_at(const Link& link) const {
    return checkers_.reached(link.decision.instance.branch, link.decision.instance.step + 1);
}

const Link* SimulationReview::before(const Link& link) const {
    const auto previous = checkers_.book().links().find(link.decision.previous);
    return previous == checkers_.book().links().end() ? nullptr : &previous->second;
}

bool SimulationReview::undisturbed(const PeerId& peer, TimePoint from, TimePoint to) const {
    const Seat* const seat = scenario_.find(peer);
    return seat != nullptr && seat->undisturbed(from, to);
}

bool SimulationReview::all_undisturbed(TimePoint from, TimePoint to) const {
    return std::ranges::all_of(scenario_.seats,
                               [&](const Seat& seat) { return seat.undisturbed(from, to); });
}

// Two peers that nobody can dial never meet: there are no relays in this world.
bool SimulationReview::can_meet(const PeerId& one, const PeerId& other) const {
    if (one == other) return true;
    return std::ranges::any_of(scenario_.seats, [&](const Seat& seat) {
        const PeerId& peer = seat.node->id();
        return (peer == one || peer == other) && seat.node->options().dialable;
    });
}

bool SimulationReview::was_there(const Seat& seat, const Link& link, TimePoint at) const {
    const std::uint64_t step = link.decision.instance.step;
    const bool rested = std::ranges::any_of(
        seat.rests, [&](const auto& rest) { return rest.first <= step && step <= rest.second; });
    return !rested && !seat.aggregates && seat.peer && seat.peer->running() &&
           seat.peer->running_since() + 10s < at && seat.undisturbed(at - 30s, at);
}

// A fault met it shortly before it was ordered so.
bool SimulationReview::was_disturbed(const robust::Order& order, const Link& link) const {
    const auto at = checkers_.first_seen(link.digest);
    return !at || !undisturbed(order.subject, *at - 30s, *at);
}

// While everybody is undisturbed, steps come at their usual pace.
void SimulationReview::check_pace() {
    constexpr double pace_max_s = 12;  // a step takes about 3
    std::optional<TimePoint> last;
    for (const Link* link : checkers_.winner()) {
        if (!link->plan) continue;
        const auto at = made_at(*link);
        if (!at) continue;
        result_.commit_times_s.push_back(to_seconds(at->since_start));
        if (last) {
            const double gap = to_seconds(*at - *last);
            result_.step_gap_max_s = std::max(result_.step_gap_max_s, gap);
            if (gap > pace_max_s && all_undisturbed(*last - 20s, *at))
                checkers_.violation(
                    fmt::format("nothing was wrong for 20 s, and yet {} took {:.1f} s",
                                describe(link->decision),
                                gap));
        }
        last = at;
    }
}

// No step is made of one peer's gradient alone while another one was there all the time that it
// could meet, or that a third one could have led together with it.
void SimulationReview::check_nobody_is_alone() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (!link.plan) continue;
        std::size_t contributors = 0;
        PeerId who;
        for (const auto& member : link.plan->members)
            if (!member.input.is_empty()) {
                ++contributors;
                who = member.peer;
            }
        const auto at = made_at(link);
        if (contributors != 1 || !at || !undisturbed(who, *at - 30s, *at)) continue;
        const bool led = std::ranges::any_of(scenario_.seats, [&](const Seat& seat) {
            return seat.node->options().dialable && was_there(seat, link, *at);
        });
        for (const Seat& seat : scenario_.seats)
            if (seat.node->id() != who && was_there(seat, link, *at) &&
                (led || can_meet(who, seat.node->id())))
                checkers_.violation(fmt::format("{}: {} stepped alone, and {} was there",
                                                describe(link.decision),
                                                who.short_text(),
                                                seat.node->name()));
    }
}

// Nobody opens a branch while one of its peers could reach as many voters as decide: it and they
// undisturbed.
void SimulationReview::check_branches() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (link.decision.kind != consensus::DecisionKind::branch) continue;
        const Link* const previous = before(link);
        const auto at = checkers_.first_seen(digest);
        if (previous == nullptr || !at) continue;
        const auto& voters = previous->decision.next_voters;
        const Duration window = run_.run.averaging.quorum_timeout + 15s;
        std::size_t calm = 0;  // the most that any of those who signed could reach
        for (const consensus::Voter& survivor : link.decision.next_voters) {
            if (!undisturbed(survivor.peer, *at - window, *at)) continue;
            const auto reached = static_cast<std::size_t>(
                std::ranges::count_if(voters, [&](const consensus::Voter& voter) {
                    return undisturbed(voter.peer, *at - window, *at) &&
                           can_meet(survivor.peer, voter.peer);
                }));
            calm = std::max(calm, reached);
        }
        if (calm < consensus::quorum(voters.size(), run_.run.robust.has_value())) continue;
        checkers_.violation(fmt::format("{} was opened although {} of {} voters were there",
                                        describe(link.decision),
                                        calm,
                                        voters.size()));
    }
}

// Aggregators lead, vote and donate nothing; what they reduced is checked like everybody's.
void SimulationReview::check_aggregators() {
    const auto is_aggregator = [this](const PeerId& peer) {
        const Seat* const seat = scenario_.find(peer);
        return seat != nullptr && seat->aggregates;
    };
    for (const auto& [digest, link] : checkers_.book().links()) {
        for (const consensus::Voter& voter : link.decision.next_voters)
            if (is_aggregator(voter.peer))
                checkers_.violation(describe(link.decision) + ": an aggregator may vote");
        if (!link.plan) continue;
        for (const consensus::PlanMember& member : link.plan->members)
            if (is_aggregator(member.peer) != member.aggregator)
                checkers_.violation(fmt::format("{}: {} takes part in another role than its own",
                                                describe(link.decision),
                                                member.peer.short_text()));
        for (const consensus::FinishedPart& part : link.decision.parts)
            if (part.owner < link.plan->members.size() && link.plan->members[part.owner].aggregator)
                ++result_.parts_of_aggregators;
    }
}

// Plans leave out only those whose line is slow, or was; the others are enough to certify it.
void SimulationReview::check_left_out() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (!link.plan || link.plan->left_out.empty()) continue;
        result_.left_out += link.plan->left_out.size();
        for (const PeerId& peer : link.plan->left_out) {
            const Seat* const seat = scenario_.find(peer);
            if (seat == nullptr || !seat->was_slow)
                checkers_.violation(fmt::format("{} leaves out {}, whose line was never slow",
                                                describe(link.decision),
                                                peer.short_text()));
        }
        if (!keeps_a_majority(link))
            checkers_.violation(describe(link.decision) + " leaves out a majority of voters");
    }
}

// Once three peers are at work, no part of a step is made of fewer.
void SimulationReview::check_minimum() {
    constexpr std::size_t least = 3;
    std::map<PeerId, std::uint64_t> at_work;  // by the number of their newest decision
    for (const Link* link : checkers_.winner()) {
        const consensus::Decision& decision = link->decision;
        if (decision.kind == consensus::DecisionKind::branch) at_work.clear();
        const robust::Orders orders(decision.orders);
        std::erase_if(at_work, [&](const auto& entry) {
            return entry.second + consensus::at_work_for < decision.number ||
                   orders.barring(entry.first, decision.instance.step) != nullptr ||
                   orders.on_probation(entry.first, decision.instance.step);
        });
        if (!link->plan) continue;
        const std::size_t before = at_work.size();
        for (const consensus::FinishedPart& part : decision.parts) {
            std::size_t contributors = 0;
            for (std::size_t m = 0; m < link->plan->members.size(); ++m) {
                const consensus::PlanMember& member = link->plan->members[m];
                if (!part.includes(m) || member.weightless || member.input.is_empty()) continue;
                ++contributors;
                at_work[member.peer] = decision.number;
            }
            if (before < least || contributors >= least) continue;
            checkers_.violation(fmt::format("{}: {} peers are at work, and part {} is made of {}",
                                            describe(decision),
                                            before,
                                            part.part,
                                            contributors));
            break;
        }
    }
}

bool SimulationReview::keeps_a_majority(const Link& link) const {
    const Link* const previous = before(link);
    if (previous == nullptr) return true;
    const auto& voters = previous->decision.next_voters;
    const auto is_member = [&](const consensus::Voter& voter) {
        return std::ranges::any_of(link.plan->members,
                                   [&](const auto& member) { return member.peer == voter.peer; });
    };
    const bool without_voters = std::ranges::any_of(voters, [&](const consensus::Voter& voter) {
        return link.plan->leaves_out(voter.peer) && !is_member(voter);
    });
    const auto left = static_cast<std::size_t>(std::ranges::count_if(voters, is_member));
    return !without_voters || left >= consensus::majority(voters.size());
}

// The liar ends in the order that the rules name, and nobody else in any.
void SimulationReview::check_orders(const ProtocolLiar& liar, std::uint64_t lies_of_learner) {
    bool as_wanted = false;
    std::set<PeerId> reproached;
    for (const Link* link : checkers_.winner()) {
        for (const robust::Order& order : link->decision.orders)
            as_wanted = check_order(order, *link, reproached) || as_wanted;
        count_peer_steps(*link);
    }
    result_.honest_ordered = reproached.size();
    result_.liars_judged = as_wanted ? 1 : 0;
    const LieOutcome& wanted = outcome_of(options_.lie);
    const std::uint64_t told = liar.told(judged_until()) + lies_of_learner;
    const std::uint64_t weighed = steps_of_liar();
    if (wanted.kind && !as_wanted && told >= wanted.enough && weighed >= wanted.steps)
        checkers_.violation(
            fmt::format("a peer lied {} times ({}), weighed in {} steps, and was not {}",
                        told,
                        wanted.name,
                        weighed,
                        robust::to_string(*wanted.kind)));
    for (const std::string& early : liar.early_draws()) checkers_.violation(early);
}

// True: this is how the liar is to end.
bool SimulationReview::check_order(const robust::Order& order,
                                   const Link& link,
                                   std::set<PeerId>& reproached) {
    if (order.kind == robust::OrderKind::vouch || order.subject.is_empty()) return false;
    const Seat* const seat = scenario_.find(order.subject);
    const bool liar = seat != nullptr && seat->bad;
    if (liar && is_wanted(order)) return true;
    if (liar && is_on_its_way(order)) return false;
    // Nobody can tell a machine that hangs from one that keeps silent.
    if (!liar && order.offence == robust::Offence::withheld && was_disturbed(order, link))
        return false;
    if (reproached.insert(order.subject).second)
        checkers_.violation(fmt::format("{}: {}{} is {}",
                                        describe(link.decision),
                                        order.subject.short_text(),
                                        liar ? ", the liar," : ", which is honest,",
                                        robust::in_words(order)));
    return false;
}

// The rules name this order for the lie, or let it stand instead.
bool SimulationReview::is_wanted(const robust::Order& order) const {
    const LieOutcome& wanted = outcome_of(options_.lie);
    const bool named = order.kind == wanted.kind && order.offence == wanted.offence;
    const bool instead = order.kind == robust::OrderKind::ban &&
                         wanted.instead != robust::Offence::none && order.offence == wanted.instead;
    // A newcomer's rows, which weigh nothing, are looked at by its first checks only.
    const bool by_checks = options_.lie == ProtocolLie::false_row &&
                           run_.run.robust->probation > 0 &&
                           (order.offence == robust::Offence::mistaken ||
                            order.offence == robust::Offence::wrong_gradient);
    return named || instead || by_checks;
}

// This order may come before the one that the rules name.
bool SimulationReview::is_on_its_way(const robust::Order& order) const {
    const LieOutcome& wanted = outcome_of(options_.lie);
    // A peer that errs is told at first, whatever it means to do.
    const bool warned = order.offence == robust::Offence::mistaken &&
                        wanted.offence == robust::Offence::wrong_gradient;
    // Where one of two commitments has not gone round yet, it only does not fit.
    const bool half_known = order.offence == robust::Offence::withheld &&
                            wanted.offence == robust::Offence::two_commitments;
    return warned || half_known;
}

// Lies of the last two steps may be found, and not be ordered about yet.
TimePoint SimulationReview::judged_until() const {
    constexpr std::size_t too_new = 2;
    const std::vector<const Link*> chain = checkers_.winner();
    if (chain.size() <= too_new) return {};
    return made_at(*chain[chain.size() - 1 - too_new]).value_or(TimePoint{});
}

// In which it weighed: what a newcomer keeps back that weighs nothing is nobody's loss.
std::uint64_t SimulationReview::steps_of_liar() const {
    std::uint64_t steps = 0;
    for (const Link* link : checkers_.winner()) {
        if (!link->plan) continue;
        for (const consensus::PlanMember& member : link->plan->members) {
            const Seat* const seat = scenario_.find(member.peer);
            const bool liar = seat != nullptr && seat->bad;
            if (liar && !member.weightless && !member.input.is_empty()) ++steps;
        }
    }
    return steps;
}

void SimulationReview::count_peer_steps(const Link& link) {
    if (!link.plan) return;
    for (const consensus::PlanMember& member : link.plan->members) {
        const Seat* const seat = scenario_.find(member.peer);
        const bool bad = seat != nullptr && seat->bad;
        if (!member.input.is_empty() && !bad) ++result_.peer_steps;
    }
}

void SimulationReview::count_samples() {
    result_.samples_of.assign(scenario_.seats.size(), 0.0);
    for (const Link* link : checkers_.winner()) {
        if (!link->plan) continue;
        for (std::size_t m = 0; m < link->plan->members.size(); ++m)
            for (std::size_t p = 0; p < link->plan->parts.size(); ++p) {
                const auto& member = link->plan->members[m];
                if (!link->decision.parts[p].includes(m)) continue;
                const Seat* const seat = scenario_.find(member.peer);
                result_.samples_of[seat->node->index()] += consensus::included_samples(
                    member.input, link->plan->parts[p].range(), options_.elements());
            }
    }
}

}  // namespace dedloc::lab
