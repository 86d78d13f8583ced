#include "dedloc/validation/gradient_recheck.h"

#include <algorithm>

#include "dedloc/wire/message.h"

namespace dedloc::validation {
namespace {

using robust::Offence;
using robust::Order;
using robust::OrderKind;
using robust::RecheckResult;

Error unproved(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "evidence does not prove an order: {}", why);
}

Result<std::vector<VerifiedRecheck>> verify_rechecks(ByteView bytes,
                                                     const averaging::EvidenceContext& context) {
    const auto evidence = wire::decode<GradientEvidence>(bytes);
    if (!evidence) return unproved("it cannot be read");
    std::vector<VerifiedRecheck> rechecks;
    for (const GradientRecheck& each : evidence->rechecks) {
        DEDLOC_TRY(VerifiedRecheck read, verify_recheck(each, context.verifier));
        rechecks.push_back(std::move(read));
    }
    return rechecks;
}

bool finds_guilty(const RecheckOutcome& outcome,
                  const VerifiedRecheck& read,
                  const PeerId& subject) {
    if (outcome.result == RecheckResult::author_guilty) return read.author == subject;
    return outcome.result == RecheckResult::accuser_guilty &&
           std::ranges::find(outcome.guilty, subject) != outcome.guilty.end();
}

class GradientEvidenceChecker {
  public:
    explicit GradientEvidenceChecker(GradientRules rules) : rules_(std::move(rules)) {}

    Ok mistaken(const Order& order, ByteView bytes, const averaging::EvidenceContext& c) const {
        DEDLOC_TRY(const auto rechecks, verify_rechecks(bytes, c));
        if (order.kind != OrderKind::probation || rechecks.size() != 1)
            return unproved("one mistake puts a peer on probation");
        if (order.from_step > rechecks.front().plan->instance.step + recheck_steps_max)
            return unproved("it is about a mistake of long ago");
        const RecheckOutcome outcome =
            recheck_outcome(rechecks.front(), ids_of(c.voters), rules_.tolerance);
        if (finds_guilty(outcome, rechecks.front(), order.subject)) return {};
        return unproved("too few compute something else than it does");
    }

    // An earlier error is certified already: by the order that told it, or that let it in
    // again.
    Ok banned(const Order& order, ByteView bytes, const averaging::EvidenceContext& c) const {
        DEDLOC_TRY(const auto rechecks, verify_rechecks(bytes, c));
        if (order.kind != OrderKind::ban || rechecks.size() != 1)
            return unproved("one more wrong contribution bans a peer");
        const VerifiedRecheck& again = rechecks.front();
        const std::uint64_t step = again.plan->instance.step;
        if (order.from_step > step + recheck_steps_max)
            return unproved("it is about a mistake of long ago");
        const RecheckOutcome outcome = recheck_outcome(again, ids_of(c.voters), rules_.tolerance);
        if (!finds_guilty(outcome, again, order.subject))
            return unproved("too few compute something else than it does");
        const Order* const readmission = c.orders.readmission_of(order.subject, order.from_step);
        if (readmission != nullptr && step > readmission->from_step) return {};
        const Order* const told = c.orders.mistake_of(order.subject, order.from_step);
        if (told == nullptr || again.author != order.subject || !again.weightless)
            return unproved("nothing says that it had erred before");
        // The subject's carried samples, and the step that was open, were computed before.
        if (step <= told->from_step + 1)
            return unproved("it may have computed that before it was told");
        return {};
    }

    Ok vouched(const Order& order, ByteView bytes, const averaging::EvidenceContext& c) const {
        DEDLOC_TRY(const auto rechecks, verify_rechecks(bytes, c));
        if (order.kind != OrderKind::vouch) return unproved("it is evidence for nothing bad");
        const Order* const erred = c.orders.probation_of(order.subject, order.from_step);
        const bool readmissions = c.orders.mistake_of(order.subject, order.from_step) != nullptr;
        if (readmissions != (order.offence == Offence::mistaken))
            return unproved("it does not say whether the peer had erred");
        if (c.orders.readmission_of(order.subject, order.from_step) != nullptr)
            return unproved("a pardon is not replaced");
        if (rechecks.empty()) {
            if (c.voted_lately && erred == nullptr) return {};
            return unproved("the peer was no voter");
        }
        if (rechecks.size() < rules_.right_needed) return unproved("it was found right too rarely");
        if (erred != nullptr && rechecks.front().plan->instance.step <= erred->from_step)
            return unproved("it was right only before it erred");
        const std::set<PeerId> voters = ids_of(c.voters);
        std::set<PeerId> finders;
        for (std::size_t i = 0; i < rechecks.size(); ++i) {
            const RecheckOutcome outcome = recheck_outcome(rechecks[i], voters, rules_.tolerance);
            finders.insert(outcome.agree.begin(), outcome.agree.end());
            const bool later =
                i == 0 || rechecks[i].plan->instance.step > rechecks[i - 1].plan->instance.step;
            if (!later || rechecks[i].author != order.subject || outcome.agree.empty() ||
                outcome.result == RecheckResult::author_guilty)
                return unproved("nobody finds it right");
        }
        const std::size_t needed =
            finders_needed(*rechecks.back().plan, order.subject, voters, rules_.right_needed);
        if (finders.size() < needed)
            return unproved("too few find it right: they could be its accomplices");
        return {};
    }

  private:
    GradientRules rules_;
};

}  // namespace

std::size_t finders_needed(const consensus::RoundPlan& plan,
                           const PeerId& author,
                           const std::set<PeerId>& voters,
                           std::size_t rechecks) {
    if (voters.size() < 3) return 1;
    const auto can = static_cast<std::size_t>(
        std::ranges::count_if(plan.members, [&](const consensus::PlanMember& member) {
            return member.checks && member.peer != author && voters.contains(member.peer);
        }));
    return std::max<std::size_t>(1,
                                 std::min({rechecks, robust::findings_needed(voters.size()), can}));
}

std::size_t agreement_needed(std::size_t voters) {
    return std::max<std::size_t>(2, (voters + 1) / 2);
}

Result<VerifiedRecheck> verify_recheck(const GradientRecheck& from,
                                       const security::Verifier& verifier) {
    auto plan = wire::decode<consensus::RoundPlan>(from.plan);
    if (!plan || plan->members.empty() || plan->parts.empty())
        return unproved("its plan cannot be read");
    const averaging::DrawMessage& draw = from.proof.draw;
    if (draw.plan != consensus::decision_digest(from.plan) || from.proof.answers.size() != 1)
        return unproved("its draw is of another plan");
    DEDLOC_TRY_VOID(averaging::check_draw(verifier, *plan, draw));
    const averaging::SignedBy& answer = from.proof.answers.front();
    if (answer.member >= plan->members.size()) return unproved("a stranger answers");
    VerifiedRecheck read;
    read.plan = std::make_shared<const consensus::RoundPlan>(*std::move(plan));
    read.author = read.plan->members[answer.member].peer;
    read.weightless = read.plan->members[answer.member].weightless;
    DEDLOC_TRY(read.rows, averaging::rows_of(verifier, *read.plan, draw, answer));
    const Digest digest = averaging::digest_of(draw);
    for (const averaging::SignedBy& signed_by : from.findings) {
        const auto finding = wire::decode<Finding>(signed_by.payload);
        if (!finding || finding->draw != digest || finding->target != answer.member ||
            signed_by.member >= read.plan->members.size() || signed_by.member == answer.member)
            return unproved("a finding is about something else");
        const PeerId& finder = read.plan->members[signed_by.member].peer;
        if (!verifier.verify(finder, finding_domain, signed_by.payload, signed_by.signature))
            return unproved("a finding is not signed");
        DEDLOC_TRY(auto rows, robust::decode_rows(finding->rows, read.rows.size()));
        if (!read.findings.emplace(finder, std::move(rows)).second)
            return unproved("a validator is named twice");
    }
    return read;
}

std::set<PeerId> ids_of(const std::vector<consensus::Voter>& voters) {
    std::set<PeerId> ids;
    for (const consensus::Voter& voter : voters) ids.insert(voter.peer);
    return ids;
}

RecheckOutcome recheck_outcome(const VerifiedRecheck& read,
                               const std::set<PeerId>& voters,
                               double tolerance) {
    RecheckOutcome outcome;
    std::set<PeerId> eligible;
    for (const auto& [finder, rows] : read.findings)
        if (voters.contains(finder)) eligible.insert(finder);
    if (eligible.empty()) return outcome;
    robust::Recheck judged(read.rows, *eligible.begin(), eligible, tolerance);
    for (const PeerId& finder : eligible) {
        (void)judged.add(finder, read.findings.at(finder));
        if (robust::agree(read.rows, read.findings.at(finder), tolerance))
            outcome.agree.insert(finder);
    }
    outcome.result = judged.result(agreement_needed(voters.size()));
    outcome.guilty = judged.guilty();
    return outcome;
}

void add_gradient_rules(averaging::EvidenceRules& rules, GradientRules of) {
    const auto judge = std::make_shared<const GradientEvidenceChecker>(std::move(of));
    const auto add = [&](Offence offence, auto method) {
        rules.add(
            offence,
            [judge, method](
                const Order& order, ByteView bytes, const averaging::EvidenceContext& context) {
                return ((*judge).*method)(order, bytes, context);
            });
    };
    add(Offence::mistaken, &GradientEvidenceChecker::mistaken);
    add(Offence::mistaken, &GradientEvidenceChecker::vouched);
    add(Offence::wrong_gradient, &GradientEvidenceChecker::banned);
    add(Offence::none, &GradientEvidenceChecker::vouched);
}

}  // namespace dedloc::validation
