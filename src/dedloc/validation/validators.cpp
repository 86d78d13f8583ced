#include "dedloc/validation/validators.h"

#include <algorithm>

#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/proof_rows.h"
#include "dedloc/robust/checks.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::validation {
namespace {

using Reason = CheckQueue::Reason;

constexpr Duration finding_timeout = 5s;
constexpr std::uint64_t vouched_for_steps = 10'000;  // while it is away

// The sum of a contribution of these pieces, on the elements of one part.
std::vector<float> summed(const consensus::MemberInput& input,
                          const consensus::ElementRange& part,
                          const std::vector<std::vector<float>>& sums) {
    const auto first = sums.front().begin() + static_cast<std::ptrdiff_t>(part.offset);
    std::vector<float> all(first, first + static_cast<std::ptrdiff_t>(part.count));
    if (sums.size() < 2) return all;
    for (const consensus::ElementRange& range : consensus::intersect(input.carried_ranges, part))
        for (std::uint64_t i = range.offset; i < range.end(); ++i)
            all[static_cast<std::size_t>(i - part.offset)] += sums[1][static_cast<std::size_t>(i)];
    return all;
}

// The rows of the target's contribution, computed again. Errors: not_found: an average is gone.
Result<std::vector<robust::Row>> rows_again(const allreduce::ProofRows& rows,
                                            const consensus::RoundPlan& plan,
                                            std::uint32_t target,
                                            const std::vector<std::vector<float>>& sums) {
    const consensus::MemberInput& input = plan.members[target].input;
    const auto encoded = [&](std::uint32_t part) {
        return allreduce::encode_contribution(
            allreduce::codec_of(plan, part), summed(input, plan.parts[part].range(), sums), input);
    };
    std::vector<robust::Row> again;
    for (const std::uint32_t owner : rows.owners()) {
        DEDLOC_TRY(const robust::Row row, rows.row(owner, target, encoded));
        again.push_back(row);
    }
    return again;
}

}  // namespace

std::optional<std::uint32_t> GradientValidators::place_of(const consensus::RoundPlan& plan,
                                                          const PeerId& peer) {
    const auto found = std::ranges::find(plan.members, peer, &consensus::PlanMember::peer);
    if (found == plan.members.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - plan.members.begin());
}

GradientValidators::GradientValidators(runtime::Node node,
                                       p2p::Host& host,
                                       const security::Signer& signer,
                                       const security::Verifier& verifier,
                                       const consensus::Ledger& ledger,
                                       const allreduce::PartStore& parts,
                                       averaging::EvidenceStore& evidence,
                                       events::Teller& teller,
                                       ValidatorOptions options,
                                       ValidatorHooks hooks)
    : node_(std::move(node)),
      host_(host),
      signer_(signer),
      verifier_(verifier),
      ledger_(ledger),
      parts_(parts),
      evidence_(evidence),
      teller_(teller),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      handlers_(host),
      scope_(node_.executor) {}

void GradientValidators::start() {
    handlers_.on_call(finding_method, [this](PeerId from, Bytes request) {
        return on_finding(from, std::move(request));
    });
    handlers_.on_call(silence_method, [this](PeerId from, Bytes request) {
        return on_silence(from, std::move(request));
    });
}

Task<void> GradientValidators::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

// ---- whose turn it is ---------------------------------------------------------------------------

void GradientValidators::certified(const consensus::Decision& decision,
                                   std::shared_ptr<const consensus::RoundPlan> plan,
                                   std::shared_ptr<const state::Snapshot> state) {
    const SharedBytes proof = evidence_.find(decision.proof);
    if (proof)
        receive_proof(decision, std::move(plan), std::move(state), *proof);
    else if (place_of(*plan, host_.id()))  // a round that went on without our vote
        scope_.spawn("fetch a proof", fetch_proof(decision, std::move(plan), std::move(state)));
}

Task<void> GradientValidators::fetch_proof(consensus::Decision decision,
                                           std::shared_ptr<const consensus::RoundPlan> plan,
                                           std::shared_ptr<const state::Snapshot> state) {
    const PeerId leader = plan->leader;
    const TimePoint deadline = node_.clock.now() + finding_timeout;
    const auto proof = co_await evidence_.fetch(leader, decision.proof, deadline);
    if (proof) receive_proof(decision, std::move(plan), std::move(state), **proof);
}

void GradientValidators::check_voters(const std::vector<consensus::Voter>& before) {
    const consensus::Base& base = ledger_.base();
    if (base.newcomers_weigh) return;
    for (const consensus::Voter& voter : before) {
        const bool erred = base.barring(voter.peer) != nullptr || is_mistaken(voter.peer);
        // Orders of another branch, which we came from, were none here.
        if (base.is_voter(voter.peer) || erred || base.weighs(voter.peer) ||
            !ledger_.remembers_voter(voter.peer))
            continue;
        const GradientEvidence voted{.rechecks = {}, .voted = true};
        propose(order(robust::OrderKind::vouch, robust::Offence::none, voter.peer), voted);
    }
}

void GradientValidators::receive_proof(const consensus::Decision& decision,
                                       std::shared_ptr<const consensus::RoundPlan> plan,
                                       std::shared_ptr<const state::Snapshot> state,
                                       ByteView bytes) {
    auto decoded = wire::decode<averaging::Proof>(bytes);
    if (!decoded) return;
    averaging::Proof proof = *std::move(decoded);
    const Digest draw = averaging::digest_of(proof.draw);
    if (rounds_.contains(draw)) return;
    auto rows = averaging::rows_of(verifier_, *plan, proof);
    if (!rows) return;  // voters saw more than we do; it is no matter of ours
    Round round;
    round.step = decision.instance.step;
    for (const consensus::Standing& standing : decision.standings)
        round.steps.emplace(standing.peer, standing.steps);
    round.plan_bytes = decision.plan;
    round.plan = std::move(plan);
    round.proof = std::move(proof);
    round.rows = *std::move(rows);
    for (const consensus::Voter& voter : decision.next_voters)
        if (const auto place = place_of(*round.plan, voter.peer)) {
            round.voters.insert(voter.peer);
            if (round.plan->members[*place].checks) round.checkers.insert(voter.peer);
        }
    round.state = std::move(state);
    if (!order_of_rounds_.empty()) {
        const Round& before = rounds_.at(order_of_rounds_.back());
        if (before.step + 1 == round.step) round.state_before = before.state;
    }
    Round& kept = rounds_.emplace(draw, std::move(round)).first->second;
    order_of_rounds_.push_back(draw);
    forget_old();
    assign(kept, draw);
    ask_deputies(kept.step);
    note_silence(kept.step);
    for (auto early = early_.begin(); early != early_.end();) {
        if (early->first != draw) {
            ++early;
            continue;
        }
        averaging::SignedBy finding = std::move(early->second);
        early = early_.erase(early);
        receive_finding(std::move(finding));
    }
}

void GradientValidators::forget_old() {
    while (order_of_rounds_.size() > rounds_open_max) {
        rounds_.erase(order_of_rounds_.front());
        order_of_rounds_.pop_front();
    }
    for (std::size_t i = 0; i + rounds_with_state < order_of_rounds_.size(); ++i) {
        Round& old = rounds_.at(order_of_rounds_[i]);
        old.state.reset();
        old.state_before.reset();
        jobs_.forget_newcomers(order_of_rounds_[i]);
    }
    waiting_ = jobs_.size();
}

void GradientValidators::assign(Round& round, const Digest& draw) {
    std::vector<robust::Checkable> members(round.plan->members.size());
    for (std::uint32_t m = 0; m < members.size(); ++m) {
        const consensus::PlanMember& member = round.plan->members[m];
        members[m].contributes = round.rows.contains(m) && !member.input.is_empty();
        members[m].work = static_cast<double>(member.input.weight_max());
        members[m].chance = chance_of(round, member);
        members[m].always = member.weightless;
        if (round.checkers.contains(member.peer) && !member.weightless)
            members[m].speed = static_cast<double>(member.input.weight_max());
    }
    robust::limit_chances(members, options_.check);
    const Digest seed = averaging::seed_of(round.proof.draw);
    for (const robust::CheckAssignment& job : robust::assign_checks(seed, members))
        open_case(round, job, draw);
    if (holds_back_) queue_test_of_ourselves(round, draw);
}

// A young key is checked more often than others.
double GradientValidators::chance_of(const Round& round,
                                     const consensus::PlanMember& member) const {
    const auto found = round.steps.find(member.peer);
    return found == round.steps.end()
               ? options_.check
               : ledger_.base().protection.check_chance(found->second, options_.check);
}

void GradientValidators::open_case(Round& round,
                                   const robust::CheckAssignment& job,
                                   const Digest& draw) {
    const PeerId& validator = round.plan->members[job.validator].peer;
    const PeerId& author = round.plan->members[job.target].peer;
    std::set<PeerId> eligible = round.voters;
    eligible.erase(author);
    robust::Recheck book(
        round.rows.at(job.target), validator, std::move(eligible), options_.tolerance);
    round.rechecks.emplace(job.target, OpenRecheck(std::move(book))).first->second.validator =
        validator;
    if (validator == host_.id()) queue(round, draw, job.target, Reason::drawn);
}

// A validator that keeps its answers back changes nothing: the same seed says who answers instead.
void GradientValidators::ask_deputies(std::uint64_t step) {
    for (auto& [draw, round] : rounds_) {
        if (!round.state || round.step + unanswered_after > step) continue;
        for (auto& [target, open] : round.rechecks) {
            const auto result = open.book.result(needed_for(round));
            if (result != robust::RecheckResult::open || std::exchange(open.deputised, true))
                continue;
            std::vector<PeerId> others(round.checkers.begin(), round.checkers.end());
            std::erase(others, open.validator);
            std::erase(others, round.plan->members[target].peer);
            if (others.empty() || others[(draw.bytes[1] + target) % others.size()] != host_.id())
                continue;
            queue(round, draw, target, Reason::deputy);
        }
    }
}

// Anybody's who is not on trial: the seed says whose.
void GradientValidators::queue_test_of_ourselves(const Round& round, const Digest& draw) {
    std::vector<std::uint32_t> others;
    for (const auto& [member, rows] : round.rows) {
        const consensus::PlanMember& of = round.plan->members[member];
        if (of.peer != host_.id() && !of.weightless && !of.input.is_empty())
            others.push_back(member);
    }
    if (others.empty()) return;
    queue(round, draw, others[draw.bytes[0] % others.size()], Reason::own_test);
}

void GradientValidators::queue(const Round& round,
                               const Digest& draw,
                               std::uint32_t target,
                               CheckQueue::Reason reason) {
    const consensus::PlanMember& member = round.plan->members[target];
    if (!round.state) return;
    CheckQueue::Job job;
    job.what = {next_number_++, member.peer, host_.id(), {{member.input.fresh, round.state}}};
    if (member.input.carried.size() > 0) {
        if (!round.state_before) return;
        job.what.pieces.push_back({member.input.carried, round.state_before});
    }
    job.draw = draw;
    job.target = target;
    const bool is_newcomer =
        member.weightless && (reason == Reason::drawn || reason == Reason::deputy);
    job.reason = is_newcomer ? Reason::newcomer : reason;
    jobs_.add(std::move(job));
    waiting_ = jobs_.size();
}

bool GradientValidators::is_wanted(const CheckQueue::Job& job) const {
    const auto round = rounds_.find(job.draw);
    if (round == rounds_.end()) return false;
    if (job.reason != Reason::deputy) return true;
    const robust::Recheck& book = round->second.rechecks.at(job.target).book;
    return book.result(needed_for(round->second)) == robust::RecheckResult::open;
}

std::optional<CheckJob> GradientValidators::take() {
    auto job = jobs_.take();
    while (job && !is_wanted(*job)) job = jobs_.take();
    waiting_ = jobs_.size();
    if (!job) return std::nullopt;
    CheckJob what = job->what;
    job->what.pieces.clear();  // the states are the caller's now
    taken_.emplace(what.number, *std::move(job));
    return what;
}

// ---- what comes of it ---------------------------------------------------------------------------

Task<void> GradientValidators::checked(CheckResult result) {
    const auto found = taken_.find(result.number);
    if (found == taken_.end()) co_return;
    const CheckQueue::Job job = std::move(found->second);
    taken_.erase(found);
    const auto round = rounds_.find(job.draw);
    if (round == rounds_.end() || result.sums.empty()) co_return;
    std::vector<allreduce::ReducedAverage> averages;
    for (const consensus::FinishedPart& header : round->second.proof.draw.parts)
        averages.push_back({header, parts_.find(header.digest)});
    auto work = [plan = round->second.plan,
                 rule = options_.rule,
                 seed = averaging::seed_of(round->second.proof.draw),
                 averages = std::move(averages),
                 workers = &node_.workers,
                 target = job.target,
                 sums = std::move(result.sums)]() mutable {
        const allreduce::ProofRows rows(plan, rule, seed, std::move(averages), *workers);
        auto again = rows_again(rows, *plan, target, sums);
        return again;
    };
    const auto again = co_await node_.workers.run(std::move(work));
    if (!again) co_return;
    ++checks_made_;
    const auto still = rounds_.find(job.draw);
    if (still == rounds_.end()) co_return;
    if (job.reason == Reason::own_test) {
        const bool right =
            robust::agree(still->second.rows.at(job.target), *again, options_.tolerance);
        test_of_ourselves(still->second, job.target, right);
        co_return;
    }
    const auto own_place = place_of(*still->second.plan, host_.id());
    if (!own_place) co_return;
    const PeerId& author = still->second.plan->members[job.target].peer;
    teller_.tell(events::CheckMade{.checks = checks_made_},
                 author,
                 fmt::format("computed what {} handed in at step {} again",
                             hooks_.name_of(author),
                             still->second.step + 1));
    Finding finding{job.draw, job.target, robust::encode_rows(*again)};
    averaging::SignedBy signed_by;
    signed_by.member = *own_place;
    signed_by.payload = wire::encode(finding);
    signed_by.signature = signer_.sign(finding_domain, signed_by.payload);
    publish(finding_method, signed_by);
    receive_finding(std::move(signed_by));
}

void GradientValidators::publish(const char* method, const averaging::SignedBy& said) {
    const Bytes message = wire::encode(said);
    for (const PeerId& peer : hooks_.audience())
        if (peer != host_.id()) scope_.spawn("tell of a check", send(peer, method, message));
}

Task<void> GradientValidators::send(PeerId peer, std::string method, Bytes message) {
    const TimePoint deadline = node_.clock.now() + finding_timeout;
    (void)co_await host_.call(peer, method, std::move(message), deadline);
}

Task<Result<Bytes>> GradientValidators::on_finding(PeerId from, Bytes request) {
    if (ledger_.started() && ledger_.base().barring(from) != nullptr)
        co_return make_error(ErrorKind::denied, "you are kept out of this run");
    auto signed_by = wire::decode<averaging::SignedBy>(request);
    if (!signed_by) co_return make_error(ErrorKind::peer_broke_protocol, "not a finding");
    receive_finding(*std::move(signed_by));
    co_return Bytes{};
}

// Anybody may hand a finding on: its signature says whose it is.
void GradientValidators::receive_finding(averaging::SignedBy signed_by) {
    const auto finding = wire::decode<Finding>(signed_by.payload);
    if (!finding) return;
    const auto found = rounds_.find(finding->draw);
    if (found == rounds_.end()) {
        keep_early(finding->draw, std::move(signed_by));
        return;
    }
    Round& round = found->second;
    const auto open = round.rechecks.find(finding->target);
    if (open == round.rechecks.end() || signed_by.member >= round.plan->members.size()) return;
    const PeerId& finder = round.plan->members[signed_by.member].peer;
    auto rows = robust::decode_rows(finding->rows, round.rows.at(finding->target).size());
    if (!rows || !verifier_.verify(finder, finding_domain, signed_by.payload, signed_by.signature))
        return;
    if (!open->second.book.is_asked(finder)) {
        std::vector<averaging::SignedBy>& later = open->second.not_asked;
        if (later.size() < round.plan->members.size()) later.push_back(std::move(signed_by));
        return;
    }
    if (!open->second.book.add(finder, *std::move(rows))) return;
    silent_.answered(finder, newest_step());
    open->second.findings.emplace(finder, std::move(signed_by));
    inspect(round, finding->draw, finding->target);
}

void GradientValidators::keep_early(const Digest& draw, averaging::SignedBy finding) {
    early_.emplace_back(draw, std::move(finding));
    if (early_.size() > findings_early_max) early_.pop_front();
}

// Votes needed of those who were voters then, and of those who vote on the order.
std::size_t GradientValidators::needed_for(const Round& round) const {
    return std::max(agreement_needed(round.voters.size()),
                    agreement_needed(ledger_.base().voters.size()));
}

void GradientValidators::inspect(Round& round, const Digest& draw, std::uint32_t target) {
    OpenRecheck& open = round.rechecks.at(target);
    if (open.closed) return;
    switch (open.book.result(needed_for(round))) {
        case robust::RecheckResult::open:
            if (!open.deputised || open.findings.empty()) return;
            open.closed = true;
            found_right(round, target, open);
            return;
        case robust::RecheckResult::right:
            open.closed = true;
            found_right(round, target, open);
            return;
        case robust::RecheckResult::disputed:
            ask_all(round, draw, target, open);
            return;
        case robust::RecheckResult::author_guilty:
            open.closed = true;
            found_wrong(round, target, open);
            return;
        case robust::RecheckResult::accuser_guilty:
            open.closed = true;
            accuser_wrong(round, target, open);
            return;
        case robust::RecheckResult::undecided:
            open.closed = true;
            teller_.tell(events::CheckUndecided{},
                         round.plan->members[target].peer,
                         fmt::format("validators cannot agree on what {} should have computed at "
                                     "step {}: nobody is kept out",
                                     hooks_.name_of(round.plan->members[target].peer),
                                     round.step + 1));
            return;
    }
}

void GradientValidators::ask_all(Round& round,
                                 const Digest& draw,
                                 std::uint32_t target,
                                 OpenRecheck& open) {
    if (std::exchange(open.asked_all, true)) return;
    // The voters on the order are asked, not those of the round.
    for (const consensus::Voter& voter : ledger_.base().voters) {
        const auto place = place_of(*round.plan, voter.peer);
        if (place && *place != target && round.plan->members[*place].checks) {
            open.book.ask(voter.peer);
            round.checkers.insert(voter.peer);
        }
    }
    for (averaging::SignedBy& finding : std::exchange(open.not_asked, {}))
        receive_finding(std::move(finding));
    const PeerId& author = round.plan->members[target].peer;
    teller_.tell(events::CheckDisputed{},
                 author,
                 fmt::format("a validator computes something else than {} at step {}: the other "
                             "voters compute it again",
                             hooks_.name_of(author),
                             round.step + 1));
    if (author != host_.id() && round.checkers.contains(host_.id()) &&
        !open.findings.contains(host_.id()))
        queue(round, draw, target, Reason::disputed);
}

// ---- orders that follow -------------------------------------------------------------------------

GradientRecheck GradientValidators::as_evidence(const Round& round,
                                                std::uint32_t target,
                                                const OpenRecheck& open) const {
    GradientRecheck made;
    made.plan = round.plan_bytes;
    made.proof.draw = round.proof.draw;
    const auto answer =
        std::ranges::find(round.proof.answers, target, &averaging::SignedBy::member);
    if (answer != round.proof.answers.end()) made.proof.answers = {*answer};
    for (const auto& [finder, finding] : open.findings) made.findings.push_back(finding);
    return made;
}

robust::Order GradientValidators::order(robust::OrderKind kind,
                                        robust::Offence offence,
                                        const PeerId& subject) const {
    robust::Order made;
    made.kind = kind;
    made.offence = offence;
    made.subject = subject;
    made.from_step = ledger_.base().instance.step;
    made.until_step = robust::for_good;
    if (kind == robust::OrderKind::vouch) made.until_step = made.from_step + vouched_for_steps;
    return made;
}

void GradientValidators::propose(robust::Order order, const GradientEvidence& evidence) {
    propose_bytes(std::move(order), wire::encode(evidence));
}

void GradientValidators::propose_bytes(robust::Order order, Bytes evidence) {
    order.evidence = security::sha256(evidence);
    hooks_.propose(std::move(order), std::move(evidence));
}

bool GradientValidators::is_mistaken(const PeerId& peer) const {
    const consensus::Base& base = ledger_.base();
    return base.orders.on_probation(peer, base.instance.step);
}

bool GradientValidators::is_found_right_by_enough(const Round& round, const PeerId& author) const {
    const std::set<PeerId> voters = ids_of(ledger_.base().voters);
    std::set<PeerId> finders;
    for (const GradientRecheck& found : right_.at(author)) {
        const auto read = verify_recheck(found, verifier_);
        if (!read) continue;
        const RecheckOutcome outcome = recheck_outcome(*read, voters, options_.tolerance);
        finders.insert(outcome.agree.begin(), outcome.agree.end());
    }
    return finders.size() >= finders_needed(*round.plan, author, voters, options_.right_needed);
}

void GradientValidators::found_right(const Round& round,
                                     std::uint32_t target,
                                     const OpenRecheck& open) {
    const consensus::PlanMember& author = round.plan->members[target];
    if (!author.weightless || ledger_.base().weighs(author.peer)) return;
    std::vector<GradientRecheck>& right = right_[author.peer];
    right.push_back(as_evidence(round, target, open));
    if (right.size() > rechecks_max) right.erase(right.begin());
    tell_right(author.peer, right.size());
    if (right.size() < options_.right_needed || !is_found_right_by_enough(round, author.peer))
        return;
    const GradientEvidence evidence{.rechecks = std::move(right), .voted = false};
    right_.erase(author.peer);
    const consensus::Base& base = ledger_.base();
    const bool readmissions = base.orders.mistake_of(author.peer, base.instance.step) != nullptr;
    const auto offence = readmissions ? robust::Offence::mistaken : robust::Offence::none;
    propose(order(robust::OrderKind::vouch, offence, author.peer), evidence);
}

void GradientValidators::tell_right(const PeerId& author, std::size_t right) const {
    // More of them are needed where too few different peers have found them right.
    const std::size_t shown = std::min<std::size_t>(right, options_.right_needed);
    const bool about_us = author == host_.id();
    teller_.tell(
        events::NewcomerRight{
            .right = shown, .needed = options_.right_needed, .about_us = about_us ? 1U : 0U},
        author,
        fmt::format("{}: {} of {} checks right{}",
                    about_us ? "this peer, a newcomer" : hooks_.name_of(author),
                    shown,
                    options_.right_needed,
                    shown < options_.right_needed ? "; what it brings weighs nothing yet" : ""));
}

// The peer had erred before this round, and been let in again.
bool GradientValidators::was_readmitted(const PeerId& peer, const Round& round) const {
    const consensus::Base& base = ledger_.base();
    const robust::Order* const readmission = base.orders.readmission_of(peer, base.instance.step);
    return readmission != nullptr && readmission->from_step < round.step;
}

// The first time it may be a mistake, and the peer is told. What it had computed by then is not
// counted against it.
void GradientValidators::found_wrong(const Round& round,
                                     std::uint32_t target,
                                     const OpenRecheck& open) {
    const consensus::PlanMember& author = round.plan->members[target];
    right_.erase(author.peer);
    const consensus::Base& base = ledger_.base();
    const robust::Order* const told = base.orders.mistake_of(author.peer, base.instance.step);
    const bool ignored_it =
        author.weightless && told != nullptr && round.step > told->from_step + 1;
    const GradientEvidence evidence{.rechecks = {as_evidence(round, target, open)}, .voted = false};
    if (ignored_it || was_readmitted(author.peer, round))
        propose(order(robust::OrderKind::ban, robust::Offence::wrong_gradient, author.peer),
                evidence);
    else if (!is_mistaken(author.peer))
        propose(order(robust::OrderKind::probation, robust::Offence::mistaken, author.peer),
                evidence);
}

void GradientValidators::accuser_wrong(const Round& round,
                                       std::uint32_t target,
                                       const OpenRecheck& open) {
    const GradientEvidence evidence{.rechecks = {as_evidence(round, target, open)}, .voted = false};
    using robust::Offence;
    using robust::OrderKind;
    for (const PeerId& accuser : open.book.guilty()) {
        if (is_mistaken(accuser)) continue;
        const bool again = was_readmitted(accuser, round);
        propose(again ? order(OrderKind::ban, Offence::wrong_gradient, accuser)
                      : order(OrderKind::probation, Offence::mistaken, accuser),
                evidence);
    }
}

// ---- this peer's own mistakes -------------------------------------------------------------------

void GradientValidators::check_own_orders() {
    const bool erred = is_mistaken(host_.id()) && !options_.stubborn;
    if (!erred) own_right_ = 0;
    holds_back_ = erred && own_right_ < right_before_it_returns;
}

void GradientValidators::test_of_ourselves(const Round& round, std::uint32_t target, bool right) {
    const PeerId& author = round.plan->members[target].peer;
    own_right_ = right ? own_right_ + 1 : 0;
    teller_.tell(
        events::OwnCheck{.right = right},
        author,
        right ? fmt::format("this peer computes the same as {} at step {} ({} of {} checks that "
                            "it needs to take part again)",
                            hooks_.name_of(author),
                            round.step + 1,
                            own_right_,
                            right_before_it_returns)
              : fmt::format("this peer computes something else than {} at step {}: look at its "
                            "data, its libraries and its memory",
                            hooks_.name_of(author),
                            round.step + 1));
    if (own_right_ >= right_before_it_returns) holds_back_ = false;
}

}  // namespace dedloc::validation
