#include "tests/sim/protocol_liars.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "dedloc/averaging/docket.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

namespace dedloc::lab {
namespace {

using namespace averaging;
using robust::Offence;
using robust::OrderKind;

constexpr TimePoint lies_from{6s};  // everybody votes by then
constexpr float shift = 5.0f;       // of an average, in each of some elements
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
        {ProtocolLie::withheld_nonce, "withheld_nonce", OrderKind::probation, Offence::withheld},
        {ProtocolLie::withheld_rows, "withheld_rows", OrderKind::probation, Offence::withheld},
        {ProtocolLie::withheld_input, "withheld_input", OrderKind::eliminate, Offence::unjudged},
        {ProtocolLie::double_vote, "double_vote", OrderKind::ban, Offence::double_vote},
        {ProtocolLie::false_charge, "false_charge", std::nullopt, Offence::none},
    };
    return lies;
}

const LieOutcome& outcome_of(ProtocolLie lie) {
    return *std::ranges::find(protocol_lies(), lie, &LieOutcome::lie);
}

ProtocolLiar::ProtocolLiar(sim::World& world, std::size_t liar, ProtocolLie lie)
    : world_(world), liar_(liar), lie_(lie) {
    world.on_send([this](const sim::World::Outgoing& message) { sent(message); });
}

void ProtocolLiar::sent(const sim::World::Outgoing& message) {
    watch(message);
    if (message.from != liar_ || lie_ == ProtocolLie::none || world_.now() < lies_from) return;
    if (lie(message)) ++told_;
}

// Every contributor of a plan commits before anybody reveals a nonce.
void ProtocolLiar::watch(const sim::World::Outgoing& message) {
    if (message.method == plan_method && !message.is_answer) {
        const auto envelope = message_in<allreduce::Signed>(message.payload);
        const auto plan = envelope ? message_in<consensus::Plan>(envelope->payload) : std::nullopt;
        if (!plan) return;
        plans_.try_emplace(consensus::decision_digest(envelope->payload), *plan);
    } else if (message.method == allreduce::parts_method && !message.is_answer) {
        const auto header = message_in<allreduce::PartsHeader>(message.payload);
        if (header && header->commitment) committed_[header->plan].insert(message.from);
    } else if (message.method == reveal_method && !message.is_answer) {
        const auto reveal = message_in<Reveal>(message.payload);
        if (!reveal || !judged_.insert(reveal->plan).second) return;
        std::size_t bring = 0;
        std::size_t committed = 0;
        for (const consensus::PlanMember& member : plans_[reveal->plan].members) {
            if (member.input.is_empty()) continue;
            ++bring;
            const sim::SimNode* const machine = world_.find(member.peer);
            committed += committed_[reveal->plan].contains(machine->index()) ? 1 : 0;
        }
        // An owner of everything sends no part to anybody.
        if (committed + 1 < bring)
            early_.push_back(
                fmt::format("a nonce of plan {} is revealed when {} of {} have committed",
                            reveal->plan.short_hex(),
                            committed,
                            bring));
    } else if (message.method == consensus::propose_method && !message.is_answer &&
               message.to == liar_) {
        proposed_ = message_in<consensus::Propose>(message.payload);
    } else if (message.method == draw_method && !message.is_answer && message.to == liar_) {
        watch_draw(message);
    }
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
    if (!header || !header->commitment) return false;
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
    if (!reveal || reveal->plan.is_zero()) return false;
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

// A ban of the first voter that is not the liar, by evidence that is none.
bool ProtocolLiar::charge_falsely(Bytes& bytes) {
    auto propose = message_in<consensus::Propose>(bytes);
    if (!propose) return false;
    Bytes& text = propose->outline.empty() ? propose->decision : propose->outline;
    auto decision = message_in<consensus::Decision>(text);
    if (!decision || decision->next_voters.size() < 2) return false;
    const PeerId& me = world_.node(liar_).id();
    const auto victim = std::ranges::find_if(
        decision->next_voters, [&me](const consensus::Voter& voter) { return voter.peer != me; });
    robust::Orders orders(decision->orders);
    robust::Order order;
    order.offence = Offence::wrong_reduction;
    order.subject = victim->peer;
    order.from_step = decision->instance.step;
    order.until_step = robust::for_good;
    order.evidence = another(Digest{});
    if (!orders.add(order)) return false;
    decision->next_voters.erase(victim);
    decision->orders = orders.list();
    text = wire::encode(*decision);
    if (!propose->outline.empty()) return false;  // it is asked for the whole one, which is this
    bytes = wire::encode(*propose);
    return true;
}

// For what was proposed, and to everybody for an abort.
bool ProtocolLiar::vote_twice() {
    if (!proposed_) return false;
    const Bytes& text = proposed_->outline.empty() ? proposed_->decision : proposed_->outline;
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
        case ProtocolLie::false_charge:
            return method == consensus::propose_method && question &&
                   charge_falsely(message.payload);
    }
    return false;
}

}  // namespace dedloc::lab
