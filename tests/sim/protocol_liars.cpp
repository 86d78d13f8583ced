#include "tests/sim/protocol_liars.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "dedloc/averaging/messages.h"
#include "dedloc/averaging/pending_orders.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

namespace dedloc::lab {
namespace {

using namespace averaging;
using robust::Offence;
using robust::OrderKind;

constexpr float shift = 5.0f;  // of an average, in each of some elements
constexpr std::size_t shifted_elements = 8;

template <typename Message>
std::optional<Message> message_in(const Bytes& bytes) {
    auto message = wire::decode<Message>(bytes);
    if (!message) return std::nullopt;
    return *std::move(message);
}

Digest another(Digest digest) {
    digest.bytes[0] ^= 0xff;
    return digest;
}

}  // namespace

const std::vector<LieOutcome>& protocol_lies() {
    static const std::vector<LieOutcome> lies = {
        {ProtocolLie::none, "none", std::nullopt, Offence::none},
        {ProtocolLie::wrong_root, "wrong_root", OrderKind::probation, Offence::withheld},
        {ProtocolLie::two_roots, "two_roots", OrderKind::ban, Offence::two_commitments},
        {ProtocolLie::shifted_part, "shifted_part", OrderKind::ban, Offence::wrong_reduction},
        {ProtocolLie::false_row, "false_row", OrderKind::ban, Offence::false_row},
        {ProtocolLie::false_accusation,
         "false_accusation",
         OrderKind::ban,
         Offence::false_accusation},
        // The second time in a row it is testified, and ordered with the step after.
        {ProtocolLie::withheld_nonce,
         "withheld_nonce",
         OrderKind::probation,
         Offence::withheld,
         Offence::none,
         8,
         4},
        {ProtocolLie::withheld_rows,
         "withheld_rows",
         OrderKind::probation,
         Offence::withheld,
         Offence::none,
         8,
         4},
        // Where the inputs are had from their authors, it is convicted.
        {ProtocolLie::withheld_input,
         "withheld_input",
         OrderKind::eliminate,
         Offence::unjudged,
         Offence::wrong_reduction},
        {ProtocolLie::double_vote, "double_vote", OrderKind::ban, Offence::double_vote},
        {ProtocolLie::false_charge, "false_charge", std::nullopt, Offence::none},
        {ProtocolLie::wrong_gradient,
         "wrong_gradient",
         OrderKind::ban,
         Offence::wrong_gradient,
         Offence::none,
         16},
        {ProtocolLie::slight_error,
         "slight_error",
         OrderKind::probation,
         Offence::mistaken,
         Offence::none,
         12},
        {ProtocolLie::false_finding, "false_finding", OrderKind::probation, Offence::mistaken},
        {ProtocolLie::unanswered_checks,
         "unanswered_checks",
         OrderKind::probation,
         Offence::withheld,
         Offence::none,
         16},
        {ProtocolLie::colluding_pair,
         "colluding_pair",
         OrderKind::ban,
         Offence::wrong_gradient,
         Offence::none,
         16},
        {ProtocolLie::fixed_direction,
         "fixed_direction",
         OrderKind::ban,
         Offence::wrong_gradient,
         Offence::none,
         16},
        // The liar is gone before it errs once more. What it brings weightless moves nothing, and
        // is a reason not to vouch for it, not to order anything. Every second contribution is
        // computed again, so that four lies escape once in sixteen runs (seed 9384): what a key can
        // move till then is bounded by its weight (docs/robust-runs.md), and no order is promised.
        {ProtocolLie::hit_and_run,
         "hit_and_run",
         OrderKind::probation,
         Offence::mistaken,
         Offence::none,
         6,
         1},
        {ProtocolLie::lonely_step, "lonely_step", std::nullopt, Offence::none},
    };
    return lies;
}

const LieOutcome& outcome_of(ProtocolLie lie) {
    return *std::ranges::find(protocol_lies(), lie, &LieOutcome::lie);
}

LearnerLie learner_lie(ProtocolLie lie) {
    LearnerLie learner;
    learner.from = lies_from;
    switch (lie) {
        case ProtocolLie::wrong_gradient:
        case ProtocolLie::colluding_pair:
            learner.factor = -1000;
            learner.stops_when_told = false;
            break;
        case ProtocolLie::fixed_direction:
            learner.direction = 1000;
            learner.stops_when_told = false;
            break;
        case ProtocolLie::hit_and_run:
            learner.factor = -1000;
            break;
        case ProtocolLie::slight_error:
            learner.factor = 1.1f;
            break;
        case ProtocolLie::false_finding:
            learner.factor_of_checks = 2;
            break;
        case ProtocolLie::unanswered_checks:
            learner.answers_checks = false;
            break;
        default:
            break;
    }
    return learner;
}

ProtocolLiar::ProtocolLiar(sim::World& world, std::size_t liar, ProtocolLie lie)
    : world_(world), liar_(liar), lie_(lie) {
    world.on_send([this](const sim::World::Outgoing& message) { sent(message); });
}

std::uint64_t ProtocolLiar::told(TimePoint until) const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(told_, [until](TimePoint at) { return at <= until; }));
}

void ProtocolLiar::sent(const sim::World::Outgoing& message) {
    watch(message);
    if (message.from != liar_ || lie_ == ProtocolLie::none) return;
    if (world_.now() < lies_from) {
        note_truth(message);
        return;
    }
    shifted_ = {};
    if (!lie(message) || !weighs_) return;
    // The leader of a plan proposes the averages that it holds, which are the true ones: what it
    // sends beside them comes to nothing.
    const auto plan = plans_.find(shifted_);
    if (plan != plans_.end() && plan->second.leader == world_.node(liar_).id()) return;
    told_.push_back(world_.now());
}

// Every contributor of a plan commits before anybody reveals a nonce.
void ProtocolLiar::watch(const sim::World::Outgoing& message) {
    if (message.method == plan_method && !message.is_answer) {
        const auto envelope = message_in<allreduce::Signed>(message.payload);
        const auto plan =
            envelope ? message_in<consensus::RoundPlan>(envelope->payload) : std::nullopt;
        if (!plan) return;
        plans_.try_emplace(consensus::decision_digest(envelope->payload), *plan);
        for (const consensus::PlanMember& member : plan->members)
            if (member.peer == world_.node(liar_).id()) weighs_ = !member.weightless;
    } else if (message.method == allreduce::parts_method && !message.is_answer) {
        const auto header = message_in<allreduce::PartsHeader>(message.payload);
        if (header && header->commitment) committed_[header->plan].insert(message.from);
    } else if (message.method == reveal_method && !message.is_answer) {
        const auto reveal = message_in<Reveal>(message.payload);
        if (reveal) committed_at_draw_.try_emplace(reveal->plan, committed_[reveal->plan]);
    } else if (message.method == consensus::propose_method && !message.is_answer &&
               message.to == liar_) {
        proposed_ = message_in<consensus::Propose>(message.payload);
    } else if (message.method == draw_method && !message.is_answer) {
        if (const auto draw = message_in<DrawMessage>(message.payload)) watch_order_of_draw(*draw);
        if (message.to == liar_) watch_draw(message);
    }
}

// A draw is early if it includes the values of a member that had sent nothing, so was not committed
// to anything, when the first nonce was revealed.
void ProtocolLiar::watch_order_of_draw(const DrawMessage& draw) {
    const auto at_draw = committed_at_draw_.find(draw.plan);
    if (at_draw == committed_at_draw_.end() || !judged_.insert(draw.plan).second) return;
    const std::vector<consensus::PlanMember>& members = plans_[draw.plan].members;
    std::set<std::uint32_t> late;
    for (const consensus::FinishedPart& part : draw.parts)
        for (std::uint32_t m = 0; m < members.size(); ++m)
            if (part.includes(m) && m != part.owner && !members[m].input.is_empty() &&
                !at_draw->second.contains(world_.find(members[m].peer)->index()))
                late.insert(m);
    if (!late.empty())
        early_.push_back(fmt::format("a nonce of plan {} is revealed before {} of {} committed",
                                     draw.plan.short_hex(),
                                     late.size(),
                                     members.size()));
}

// The liar goes on truly where it began truly: or it would tell two things of one plan, another
// lie.
bool ProtocolLiar::lies_about(const Digest& plan) { return !told_truly_.contains(plan); }

void ProtocolLiar::note_truth(const sim::World::Outgoing& message) {
    if (message.method != allreduce::parts_method || message.is_answer) return;
    const auto header = message_in<allreduce::PartsHeader>(message.payload);
    if (header) told_truly_.insert(header->plan);
}

// An owner can only accuse who is in its parts.
void ProtocolLiar::watch_draw(const sim::World::Outgoing& message) {
    const auto draw = message_in<DrawMessage>(message.payload);
    if (!draw) return;
    draw_ = digest_of(*draw);
    accused_.reset();
    const std::vector<consensus::PlanMember>& members = plans_[draw->plan].members;
    const auto mine =
        std::ranges::find(members, world_.node(liar_).id(), &consensus::PlanMember::peer);
    const auto place = static_cast<std::uint32_t>(mine - members.begin());
    for (const consensus::FinishedPart& part : draw->parts)
        for (std::uint32_t member = 0; member < members.size() && !accused_; ++member)
            if (part.owner == place && member != place && part.includes(member))
                accused_ = {place, member};
}

bool ProtocolLiar::change_header(const sim::World::Outgoing& message) {
    auto header = message_in<allreduce::PartsHeader>(message.payload);
    if (!header || !header->commitment || !lies_about(header->plan)) return false;
    if (lie_ == ProtocolLie::two_roots) {
        if (!deceived_) deceived_ = message.to;
        if (*deceived_ != message.to) return false;
    }
    header->commitment = allreduce::sign_commitment(world_.node(liar_).signer(),
                                                    header->plan,
                                                    another(header->commitment->root),
                                                    header->commitment->nonce_hash);
    message.payload = wire::encode(*header);
    return true;
}

bool ProtocolLiar::change_reveal(Bytes& bytes) {
    auto reveal = message_in<Reveal>(bytes);
    if (!reveal || reveal->plan.is_zero() || !lies_about(reveal->plan)) return false;
    reveal->commitment = allreduce::sign_commitment(world_.node(liar_).signer(),
                                                    reveal->plan,
                                                    another(reveal->commitment.root),
                                                    reveal->commitment.nonce_hash);
    bytes = wire::encode(*reveal);
    return true;
}

bool ProtocolLiar::shift_average(Bytes& bytes) {
    auto data = message_in<allreduce::FinishedPartData>(bytes);
    if (!data || data->encoded.empty()) return false;
    Bytes encoded = to_bytes(data->encoded);
    for (std::size_t i = 0; i < shifted_elements && (i + 1) * sizeof(float) <= encoded.size();
         ++i) {
        float value = 0;
        std::memcpy(&value, encoded.data() + i * sizeof value, sizeof value);
        value += shift;
        std::memcpy(encoded.data() + i * sizeof value, &value, sizeof value);
    }
    data->encoded = encoded;
    shifted_ = data->header.plan;
    data->header.digest = security::hash_list(encoded);
    data->header.signature =
        world_.node(liar_).signer().sign(consensus::part_domain, data->header.signed_bytes());
    bytes = wire::encode(*data);
    return true;
}

bool ProtocolLiar::change_row(Bytes& bytes) {
    auto objections = message_in<Objections>(bytes);
    if (!objections || objections->answer.size() != 1) return false;
    SignedBy& mine = objections->answer.front();
    auto answer = message_in<averaging::Answer>(mine.payload);
    if (!answer || answer->rows.size() < robust::row_bytes) return false;
    auto rows = robust::decode_rows(answer->rows, answer->rows.size() / robust::row_bytes);
    if (!rows) return false;
    for (robust::Row& row : *rows) row.contribution[0] += 1;
    answer->rows = robust::encode_rows(*rows);
    mine.payload = wire::encode(*answer);
    mine.signature = world_.node(liar_).signer().sign(answer_domain, mine.payload);
    bytes = wire::encode(*objections);
    return true;
}

bool ProtocolLiar::withhold_rows(Bytes& bytes) {
    auto objections = message_in<Objections>(bytes);
    if (!objections || objections->answer.empty()) return false;
    objections->answer.clear();
    bytes = wire::encode(*objections);
    return true;
}

bool ProtocolLiar::accuse(Bytes& bytes) {
    auto objections = message_in<Objections>(bytes);
    if (!objections || draw_.is_zero() || !accused_) return false;
    SignedBy statement;
    statement.member = accused_->first;
    statement.payload = wire::encode(Accusation{draw_, accused_->second});
    statement.signature = world_.node(liar_).signer().sign(accusation_domain, statement.payload);
    objections->accusations.push_back(std::move(statement));
    bytes = wire::encode(*objections);
    return true;
}

// For what was proposed, and to everybody for an abort.
bool ProtocolLiar::vote_twice() {
    if (!proposed_) return false;
    const Bytes& text =
        proposed_->compact_decision.empty() ? proposed_->decision : proposed_->compact_decision;
    auto decision = message_in<consensus::Decision>(text);
    if (!decision || decision->kind != consensus::DecisionKind::commit) return false;
    decision->kind = consensus::DecisionKind::abort;
    decision->plan.clear();
    decision->parts.clear();
    consensus::Certificate forged;
    forged.decision = wire::encode(*decision);
    forged.ballot = proposed_->ballot;
    const sim::SimNode& me = world_.node(liar_);
    const Bytes vote =
        consensus::vote_bytes(consensus::decision_digest(forged.decision), forged.ballot);
    forged.votes.push_back({me.id(), me.signer().sign(consensus::vote_domain, vote)});
    auto call = [](sim::SimNode& node, PeerId to, Bytes payload) -> Task<void> {
        const TimePoint deadline = node.clock().now() + Duration(1s);
        (void)co_await node.host().call(
            to, consensus::certificate_method, std::move(payload), deadline);
    };
    for (std::size_t to = 0; to < world_.nodes_count(); ++to)
        if (to != liar_)
            world_.scope().spawn(
                "vote twice", call(world_.node(liar_), world_.node(to).id(), wire::encode(forged)));
    return true;
}

bool ProtocolLiar::lie(const sim::World::Outgoing& message) {
    const std::string& method = message.method;
    const bool question = !message.is_answer;
    switch (lie_) {
        case ProtocolLie::none:
        case ProtocolLie::false_charge:  // by its own engine
        case ProtocolLie::wrong_gradient:
        case ProtocolLie::slight_error:
        case ProtocolLie::false_finding:
        case ProtocolLie::unanswered_checks:
        case ProtocolLie::colluding_pair:
        case ProtocolLie::fixed_direction:
        case ProtocolLie::hit_and_run:
        case ProtocolLie::lonely_step:  // by its own engine
            return false;
        case ProtocolLie::wrong_root:
            if (method == allreduce::parts_method && question) return change_header(message);
            return method == reveal_method && question && change_reveal(message.payload);
        case ProtocolLie::two_roots:
            return method == allreduce::parts_method && question && change_header(message);
        case ProtocolLie::shifted_part:
            return method == allreduce::parts_method && !question && shift_average(message.payload);
        case ProtocolLie::withheld_input:
            if (method == input_method && !question) {
                message.payload.clear();
                return true;
            }
            return method == allreduce::parts_method && !question && shift_average(message.payload);
        case ProtocolLie::false_row:
            return method == draw_method && !question && change_row(message.payload);
        case ProtocolLie::false_accusation:
            return method == table_method && !question && accuse(message.payload);
        case ProtocolLie::withheld_nonce:
            if ((method == reveal_method && question) || (method == answer_method && !question)) {
                message.payload.clear();
                return true;
            }
            return false;
        case ProtocolLie::withheld_rows:
            return (method == draw_method || method == answer_method) && !question &&
                   withhold_rows(message.payload);
        case ProtocolLie::double_vote:
            return method == consensus::propose_method && !question && vote_twice();
    }
    return false;
}

}  // namespace dedloc::lab
