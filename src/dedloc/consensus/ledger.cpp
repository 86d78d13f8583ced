#include "dedloc/consensus/ledger.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

Error broken(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "a certificate is refused: {}", why);
}

Instance next_instance(const Decision& decision) {
    Instance next = decision.instance;
    if (decision.kind == DecisionKind::commit) {
        next.step += 1;
        next.attempt = 0;
    } else if (decision.kind == DecisionKind::abort) {
        next.attempt += 1;
    }
    return next;
}

bool voters_are_sound(const std::vector<Voter>& voters) {
    return !voters.empty() &&
           std::adjacent_find(voters.begin(), voters.end(), [](const Voter& a, const Voter& b) {
               return a.peer >= b.peer;
           }) == voters.end();
}

// Orders are sound, and nobody votes whom they keep out.
Ok check_orders_shape(const Decision& decision) {
    if (decision.orders.empty()) return {};
    DEDLOC_TRY_VOID(robust::check_orders(decision.orders));
    const std::uint64_t step = step_after(decision);
    for (const robust::Order& order : decision.orders) {
        const bool bars =
            order.kind == robust::OrderKind::ban || order.kind == robust::OrderKind::eliminate;
        if (bars && robust::in_force(order, step) &&
            std::ranges::binary_search(decision.next_voters, order.subject, {}, &Voter::peer))
            return broken("a peer that it keeps out is to vote");
    }
    return {};
}

// Voters are made of those who have proved themselves; a new branch takes whom there is.
Ok check_new_voters(const Base& base, const Decision& decision) {
    if (decision.kind == DecisionKind::branch) return {};
    const robust::Orders orders(decision.orders);
    const std::uint64_t step = step_after(decision);
    for (const Voter& voter : decision.next_voters) {
        const bool known = base.newcomers_weigh || base.is_voter(voter.peer) ||
                           orders.vouching(voter.peer, step) != nullptr;
        if (!known || orders.on_probation(voter.peer, step))
            return broken("a peer is to vote that has yet to prove itself");
    }
    return {};
}

// A commit's numbers are computed with, and not looked at again: a majority may have signed it, or
// a liar alone.
Result<std::shared_ptr<const RoundPlan>> check_shape(const Decision& decision) {
    if (!voters_are_sound(decision.next_voters)) return broken("it names no sound set of voters");
    if (!std::isfinite(decision.branch_samples) || decision.branch_samples < 0)
        return broken("its count of samples is no number");
    DEDLOC_TRY_VOID(check_orders_shape(decision));
    DEDLOC_TRY_VOID(check_protection_shape(decision));
    DEDLOC_TRY(std::shared_ptr<const RoundPlan> plan, plan_of(decision));
    if (!plan) return plan;
    if (plan->parts.size() != decision.parts.size())
        return broken("it has not an average for each part of its plan");
    const auto strange = [&plan](const auto& part) { return part.owner >= plan->members.size(); };
    if (std::ranges::any_of(plan->parts, strange) || std::ranges::any_of(decision.parts, strange))
        return broken("an owner in it is no member");
    // Sums of so many samples of all members are still numbers.
    constexpr std::uint64_t samples_of_one_max = std::uint64_t{1} << 48;
    for (const PlanMember& member : plan->members)
        DEDLOC_TRY_VOID(check_input(member.input, vector_count(*plan), samples_of_one_max));
    return plan;
}

// A branch that begins before a lost step takes that step's samples away again, which rounds.
bool counts_the_same(double one, double other) {
    constexpr double rounding = 1e-9;
    return std::abs(one - other) <= rounding * (other + 1);
}

}  // namespace

bool Base::weighs(const PeerId& peer) const {
    if (orders.on_probation(peer, instance.step)) return false;
    if (protection.knows_nothing()) return is_voter(peer);
    return newcomers_weigh || is_voter(peer) || orders.vouching(peer, instance.step) != nullptr;
}

bool Base::is_voter(const PeerId& peer) const { return voter_incarnation(peer).has_value(); }

std::optional<std::uint64_t> Base::voter_incarnation(const PeerId& peer) const {
    for (const Voter& voter : voters)
        if (voter.peer == peer) return voter.incarnation;
    return std::nullopt;
}

Bytes vote_bytes(const Digest& decision, std::uint32_t ballot) {
    Bytes bytes = to_bytes(decision.view());
    base::put_u32_be(bytes, ballot);
    return bytes;
}

std::vector<PeerId> leader_order(const Digest& previous, const std::vector<Voter>& voters) {
    std::vector<std::tuple<bool, Digest, PeerId>> keyed;
    keyed.reserve(voters.size());
    for (const Voter& voter : voters) {
        Bytes bytes = to_bytes(previous.view());
        base::append(bytes, voter.peer.bytes());
        keyed.emplace_back(!voter.dialable, security::sha256(bytes), voter.peer);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<PeerId> order;
    order.reserve(keyed.size());
    for (auto& entry : keyed) order.push_back(std::move(std::get<PeerId>(entry)));
    return order;
}

Result<std::shared_ptr<const RoundPlan>> plan_of(const Decision& decision) {
    if (decision.kind != DecisionKind::commit) return std::shared_ptr<const RoundPlan>();
    auto plan = wire::decode<RoundPlan>(decision.plan);
    if (!plan) return broken("its plan cannot be read");
    return std::make_shared<const RoundPlan>(*std::move(plan));
}

std::uint64_t step_after(const Decision& decision) { return next_instance(decision).step; }

std::vector<robust::Order> carried_orders(const Base& base) {
    robust::Orders orders = base.orders;
    orders.forget_before(base.instance.step);
    return orders.list();
}

Ok check_members_allowed(const RoundPlan& plan, const Base& base) {
    for (const PlanMember& member : plan.members) {
        if (const robust::Order* order = base.barring(member.peer))
            return make_error(ErrorKind::peer_broke_protocol,
                              "a plan is refused: a member of it is {}",
                              robust::in_words(*order));
        if (member.weightless == (base.weighs(member.peer) || member.aggregator))
            return make_error(ErrorKind::peer_broke_protocol,
                              "a plan is refused: a member of it {}",
                              member.weightless ? "weighs nothing, though it has proved itself"
                                                : "weighs something before it has proved itself");
    }
    if (base.protection.rules.on) return base.protection.check_plan(plan);
    return {};
}

Digest branch_id(const Digest& previous, const std::vector<Voter>& survivors) {
    Bytes bytes = to_bytes("dedloc-branch");
    base::append(bytes, previous.view());
    for (const Voter& voter : survivors) {
        base::append(bytes, voter.peer.bytes());
        base::put_u64_be(bytes, voter.incarnation);
    }
    return security::sha256(bytes);
}

Result<Decision> Ledger::check_start(ByteView certificate) const {
    DEDLOC_TRY(Link link, read_start(certificate));
    return std::move(link.decision);
}

Result<Link> Ledger::read_start(ByteView certificate_bytes) const {
    DEDLOC_TRY(Certificate certificate, wire::decode<Certificate>(certificate_bytes));
    DEDLOC_TRY(Decision decision, wire::decode<Decision>(certificate.decision));
    DEDLOC_TRY(std::shared_ptr<const RoundPlan> plan, check_shape(decision));
    // A beginning names its maker. Voters before anything else are unknown: whoever signed
    // is taken for one, and somebody must have.
    const bool beginning =
        decision.kind == DecisionKind::genesis || decision.kind == DecisionKind::branch;
    std::vector<Voter> voters = decision.next_voters;
    if (!beginning) {
        voters.clear();
        for (const Vote& vote : certificate.votes) voters.push_back({vote.voter, 0, false});
        if (voters.empty()) return broken("nobody signed it");
    }
    DEDLOC_TRY_VOID(check_votes(certificate, voters, beginning));
    return Link{decision_digest(certificate.decision),
                std::move(decision),
                std::move(plan),
                to_bytes(certificate_bytes)};
}

Ok Ledger::start_from(ByteView certificate) {
    DEDLOC_TRY(Link link, read_start(certificate));
    chain_.clear();
    committed_.clear();
    base_ = Base{};
    base_.run = link.decision.run;
    base_.newcomers_weigh = newcomers_weigh_;
    base_.voters_may_lie = voters_may_lie_;
    base_.protection.rules = protection_rules_;
    append(std::move(link));
    return {};
}

Ok Ledger::check_votes(const Certificate& certificate,
                       const std::vector<Voter>& voters,
                       bool all) const {
    const Digest digest = decision_digest(certificate.decision);
    const Bytes message = vote_bytes(digest, certificate.ballot);
    std::set<PeerId> seen;
    for (const Vote& vote : certificate.votes) {
        const bool known = std::any_of(voters.begin(), voters.end(), [&](const Voter& voter) {
            return voter.peer == vote.voter;
        });
        if (!known) return broken("somebody signed who may not vote");
        if (!seen.insert(vote.voter).second) return broken("a voter signed twice");
        if (!verifier_.verify(vote.voter, vote_domain, message, vote.signature))
            return broken("a signature does not hold");
    }
    std::size_t needed = all ? voters.size() : quorum(voters.size(), voters_may_lie_);
    if (bugs_.minority_commits && !all && needed > 1) --needed;
    if (seen.size() < needed)
        return broken(fmt::format("{} of {} signatures", seen.size(), needed));
    return {};
}

Result<Link> Ledger::read_next(ByteView certificate_bytes) const {
    if (certificate_bytes.size() > certificate_bytes_max) return broken("it is too large");
    DEDLOC_TRY(const Certificate certificate, wire::decode<Certificate>(certificate_bytes));
    DEDLOC_TRY(Decision decision, wire::decode<Decision>(certificate.decision));
    DEDLOC_TRY(std::shared_ptr<const RoundPlan> plan, check_decision(base_, decision));
    const bool branch = decision.kind == DecisionKind::branch;
    DEDLOC_TRY(
        robust::OrderChanges changes,
        robust::changes_between(base_.orders.list(), decision.orders, decision.instance.step));
    DEDLOC_TRY_VOID(check_votes(certificate, branch ? decision.next_voters : base_.voters, branch));
    return Link{decision_digest(certificate.decision),
                std::move(decision),
                std::move(plan),
                to_bytes(certificate_bytes),
                {},
                std::move(changes)};
}

Result<std::shared_ptr<const RoundPlan>> Ledger::check_decision(const Base& base,
                                                                const Decision& decision) const {
    if (decision.run != base.run) return broken("it belongs to another run");
    if (decision.previous != base.previous)
        return make_error(ErrorKind::not_found, "the certificate does not follow our newest one");
    if (decision.number != base.number + 1) return broken("its number does not follow");
    DEDLOC_TRY(std::shared_ptr<const RoundPlan> plan, check_shape(decision));
    DEDLOC_TRY(
        const robust::OrderChanges changes,
        robust::changes_between(base.orders.list(), decision.orders, decision.instance.step));
    if (decision.kind == DecisionKind::branch) {
        const Instance expected{
            branch_id(base.previous, decision.next_voters), base.instance.step, 0};
        if (decision.instance != expected) return broken("the new branch's id is not its hash");
        if (!counts_the_same(decision.branch_samples, base.branch_samples))
            return broken("a new branch cannot add samples");
        // A few could keep out the rest.
        if (!changes.empty()) return broken("a new branch cannot change orders");
    } else {
        if (decision.kind == DecisionKind::genesis) return broken("a second beginning");
        if (decision.instance != base.instance) return broken("it decides another step");
        if (!(decision.branch_samples >= base.branch_samples))
            return broken("its samples run backwards");
        if (decision.kind == DecisionKind::abort && decision.branch_samples != base.branch_samples)
            return broken("an attempt that came to nothing cannot add samples");
    }
    DEDLOC_TRY_VOID(check_new_voters(base, decision));
    if (plan) DEDLOC_TRY_VOID(check_members_allowed(*plan, base));
    if (plan && !bugs_.minimum_unchecked)
        DEDLOC_TRY_VOID(
            base.protection.check_minimum(*plan, decision.parts, base.number, base.voters));
    // A branch may begin before a step that nobody can undo: its signers answer for what it says.
    if (decision.kind != DecisionKind::branch)
        DEDLOC_TRY_VOID(base.protection.check_carried(decision, plan.get()));
    if (base.state && decision.state_before != *base.state)
        return make_error(ErrorKind::conflict, "the group stands on another state than we do");
    return plan;
}

Result<bool> Ledger::accept(ByteView certificate) {
    if (!started()) return make_error(ErrorKind::not_found, "no certificate is known here yet");
    for (const Link& link : chain_)
        if (base::equal(link.certificate, certificate)) return false;
    auto next = read_next(certificate);
    if (!next) {
        // Another set of votes for a decision that is in the chain already is nothing new.
        auto decoded = wire::decode<Certificate>(certificate);
        if (decoded) {
            const Digest digest = decision_digest(decoded->decision);
            for (const Link& link : chain_)
                if (link.digest == digest) return false;
        }
        return std::move(next).error();
    }
    if (next->decision.kind == DecisionKind::branch && may_follow_ && !may_follow_(next->decision))
        return make_error(ErrorKind::conflict, "a branch that left while our voters live");
    append(*std::move(next));
    const Link link = chain_.back();  // the listener may accept the next one
    if (on_decision_) on_decision_(link);
    return true;
}

void Ledger::append(Link link) {
    const Decision& decision = link.decision;
    base_.instance = next_instance(decision);
    base_.previous = link.digest;
    base_.voters = decision.next_voters;
    base_.branch_samples = decision.branch_samples;
    base_.number = decision.number;
    base_.orders = robust::Orders(decision.orders);
    base_.protection.standings = decision.standings;
    base_.protection.sizes = decision.sizes;
    if (decision.kind == DecisionKind::commit)
        base_.state.reset();
    else if (!base_.state || decision.kind == DecisionKind::genesis)
        base_.state = decision.state_before;
    link.contributors = note_committed(link);
    chain_.push_back(std::move(link));
    while (chain_.size() > kept_max_) chain_.pop_front();
}

std::vector<PeerId> Ledger::note_committed(const Link& link) {
    const Decision& decision = link.decision;
    const RoundPlan* const plan = link.plan.get();
    std::erase_if(committed_, [&](const auto& entry) {
        return entry.second.number + kept_max_ < decision.number;
    });
    std::vector<PeerId> contributors;
    if (plan == nullptr) return contributors;
    for (std::size_t i = 0; i < plan->members.size(); ++i) {
        const PlanMember& member = plan->members[i];
        std::vector<ElementRange> included;
        for (std::size_t p = 0; p < plan->parts.size() && p < decision.parts.size(); ++p)
            if (decision.parts[p].includes(i)) included.push_back(plan->parts[p].range());
        if (member.input.is_empty() || included.empty()) continue;
        contributors.push_back(member.peer);
        Committed& committed = committed_[{member.peer, moved_range(*plan).offset}];
        // Ranges that only carried samples brought are closed, too: they are not carried again.
        const CounterRange& newest =
            member.input.fresh.size() > 0 ? member.input.fresh : member.input.carried;
        if (newest == committed.newest)
            included.insert(included.end(), committed.ranges.begin(), committed.ranges.end());
        committed.until = std::max(committed.until, newest.end);
        committed.newest = newest;
        committed.ranges = joined(std::move(included));
        committed.number = decision.number;
    }
    return contributors;
}

Ok Ledger::check_not_committed(const PeerId& peer,
                               const MemberInput& input,
                               std::uint64_t moved_from) const {
    const auto found = committed_.find({peer, moved_from});
    if (found == committed_.end()) return {};
    const Committed& committed = found->second;
    const auto twice = [] {
        return make_error(ErrorKind::peer_broke_protocol,
                          "a contribution is refused: its samples are in the model already");
    };
    if (input.fresh.size() > 0 && input.fresh.begin < committed.until) return twice();
    if (input.carried.size() == 0 || input.carried.begin >= committed.until) return {};
    if (input.carried != committed.newest) return twice();
    for (const ElementRange& range : input.carried_ranges)
        if (!intersect(committed.ranges, range).empty()) return twice();
    return {};
}

void Ledger::set_state(const Digest& state) { base_.state = state; }

std::optional<std::vector<Bytes>> Ledger::after(const Digest& previous,
                                                std::size_t count_max) const {
    for (std::size_t i = 0; i < chain_.size(); ++i) {
        const bool at = chain_[i].digest == previous;
        const bool just_before = i == 0 && chain_[i].decision.previous == previous;
        if (!at && !just_before) continue;
        std::vector<Bytes> certificates;
        for (std::size_t k = at ? i + 1 : i; k < chain_.size() && certificates.size() < count_max;
             ++k)
            certificates.push_back(chain_[k].certificate);
        return certificates;
    }
    return std::nullopt;
}

const Link* Ledger::newest_commit() const {
    for (auto link = chain_.rbegin(); link != chain_.rend(); ++link)
        if (link->plan) return &*link;
    return nullptr;
}

std::vector<Bytes> Ledger::tail(std::size_t count_max) const {
    std::vector<Bytes> certificates;
    const std::size_t first = chain_.size() > count_max ? chain_.size() - count_max : 0;
    for (std::size_t i = first; i < chain_.size(); ++i)
        certificates.push_back(chain_[i].certificate);
    return certificates;
}

std::uint32_t Ledger::contributions(const PeerId& peer) const {
    const auto has_it = [&peer](const Link& link) {
        return std::ranges::find(link.contributors, peer) != link.contributors.end();
    };
    return static_cast<std::uint32_t>(std::ranges::count_if(chain_, has_it));
}

bool Ledger::remembers_voter(const PeerId& peer) const {
    return std::ranges::any_of(chain_, [&peer](const Link& link) {
        return std::ranges::binary_search(link.decision.next_voters, peer, {}, &Voter::peer);
    });
}

bool Ledger::voted_lately(const PeerId& peer) const {
    const bool since_long =
        chain_.size() >= kept_max_ || (!chain_.empty() && chain_.front().decision.number <= 1);
    return !since_long || remembers_voter(peer);
}

namespace {

// Samples in the chain before a decision; to what double precision gives back.
double samples_before(const Decision& decision) {
    const auto plan = plan_of(decision);
    if (!plan || !*plan) return decision.branch_samples;
    const double committed = committed_samples(**plan, decision.parts, vector_count(**plan));
    return std::max(decision.branch_samples - committed, 0.0);
}

Bytes signed_alone(const Decision& decision, const security::Signer& signer) {
    Certificate certificate;
    certificate.decision = wire::encode(decision);
    const Digest digest = decision_digest(certificate.decision);
    certificate.votes.push_back({signer.id(), signer.sign(vote_domain, vote_bytes(digest, 0))});
    return wire::encode(certificate);
}

}  // namespace

Bytes make_genesis(const Digest& run,
                   const Digest& state,
                   Voter host,
                   const security::Signer& signer,
                   std::uint64_t step,
                   double samples,
                   std::vector<robust::Order> orders,
                   Protection protection) {
    Decision decision;
    decision.kind = DecisionKind::genesis;
    decision.run = run;
    decision.instance = Instance{run, step, 0};
    decision.previous = run;
    decision.state_before = state;
    decision.next_voters = {std::move(host)};
    decision.branch_samples = samples;
    decision.orders = std::move(orders);
    // The new branch is told again who is at work.
    for (Standing& standing : protection.standings) standing.number = 0;
    decision.standings = std::move(protection.standings);
    decision.sizes = std::move(protection.sizes);
    return signed_alone(decision, signer);
}

Bytes make_branch_before(const Decision& lost, Voter survivor, const security::Signer& signer) {
    Decision decision;
    decision.kind = DecisionKind::branch;
    decision.run = lost.run;
    decision.previous = lost.previous;
    decision.state_before = lost.state_before;
    decision.next_voters = {std::move(survivor)};
    decision.instance =
        Instance{branch_id(decision.previous, decision.next_voters), lost.instance.step, 0};
    decision.branch_samples = samples_before(lost);
    decision.number = lost.number;
    robust::Orders orders(lost.orders);
    orders.forget_before(lost.instance.step);
    decision.orders = orders.list();
    // The size that the lost step added counts no more.
    decision.standings = lost.standings;
    decision.sizes = lost.sizes;
    if (lost.kind == DecisionKind::commit && !decision.sizes.empty()) decision.sizes.pop_back();
    for (Standing& standing : decision.standings) standing.number = 0;
    return signed_alone(decision, signer);
}

std::vector<bool> included_members(const Decision& decision, const RoundPlan& plan) {
    std::vector<bool> included(plan.members.size(), false);
    for (const FinishedPart& part : decision.parts)
        for (std::size_t i = 0; i < included.size(); ++i)
            if (part.includes(i) && !plan.members[i].input.is_empty()) included[i] = true;
    return included;
}

}  // namespace dedloc::consensus
