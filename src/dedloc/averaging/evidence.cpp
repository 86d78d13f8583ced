#include "dedloc/averaging/evidence.h"

#include <algorithm>
#include <memory>
#include <set>

#include "dedloc/allreduce/kept_inputs.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/proof_rows.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/robust/recheck.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

using robust::Offence;
using robust::Order;
using robust::OrderKind;

Error unconvincing(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "evidence does not prove an order: {}", why);
}

struct ReadEvidence {
    Evidence evidence;
    std::shared_ptr<const consensus::RoundPlan> plan;
    Digest plan_digest;
    std::uint32_t subject = 0;  // place in the plan of whom the order is about
};

// Indices that everything below relies on.
bool is_whole(const consensus::RoundPlan& plan) {
    return !plan.members.empty() && !plan.parts.empty() &&
           std::ranges::all_of(plan.parts, [&](const consensus::PlanPart& part) {
               return part.owner < plan.members.size() && part.count > 0 &&
                      codec::codec_from_number(plan.codec_of(part)).has_value();
           });
}

Result<ReadEvidence> read(const Order& order, ByteView bytes) {
    ReadEvidence result;
    auto evidence = wire::decode<Evidence>(bytes);
    if (!evidence) return unconvincing("it cannot be read");
    result.evidence = *std::move(evidence);
    auto plan = wire::decode<consensus::RoundPlan>(result.evidence.plan);
    if (!plan || !is_whole(*plan)) return unconvincing("its plan cannot be read");
    result.plan_digest = consensus::decision_digest(result.evidence.plan);
    const auto member =
        std::ranges::find(plan->members, order.subject, &consensus::PlanMember::peer);
    if (member == plan->members.end()) return unconvincing("it is about somebody else");
    result.subject = static_cast<std::uint32_t>(member - plan->members.begin());
    result.plan = std::make_shared<const consensus::RoundPlan>(*std::move(plan));
    return result;
}

Ok must_ban(const Order& order) {
    if (order.kind == OrderKind::ban) return {};
    return unconvincing("it is evidence for a ban");
}

Ok two_commitments(const Order& order, ByteView bytes, const EvidenceContext& context) {
    DEDLOC_TRY_VOID(must_ban(order));
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    const auto& commitments = read_of.evidence.commitments;
    if (commitments.size() != 2 || commitments[0].commitment.says(commitments[1].commitment))
        return unconvincing("it shows no two commitments");
    for (const SecondCommitment& each : commitments)
        if (!allreduce::is_signed(
                context.verifier, order.subject, read_of.plan_digest, each.commitment))
            return unconvincing("a commitment is not signed by the one it is about");
    return {};
}

const ShownInput* find_input(const Evidence& evidence, std::uint32_t part, std::uint32_t member) {
    for (const ShownInput& input : evidence.inputs)
        if (input.part == part && input.member == member) return &input;
    return nullptr;
}

// Shows a part of a member's contribution, under the root that it signed.
Result<SharedBytes> committed_input(const Evidence& evidence,
                                    const consensus::RoundPlan& plan,
                                    std::uint32_t part,
                                    std::uint32_t member,
                                    const Digest& root) {
    const ShownInput* const shown = find_input(evidence, part, member);
    if (shown == nullptr) return unconvincing("an input is missing");
    const SharedBytes encoded(shown->encoded);
    const auto count = static_cast<std::size_t>(plan.parts[part].count);
    if (encoded.size() != codec::encoded_size(allreduce::codec_of(plan, part), count) ||
        !allreduce::is_committed({encoded, shown->path}, root, part, plan.parts.size()))
        return unconvincing("an input is none that its author had committed to");
    return encoded;
}

Ok wrong_reduction(const Order& order, ByteView bytes, const EvidenceContext& context) {
    DEDLOC_TRY_VOID(must_ban(order));
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    if (read_of.evidence.finished.size() != 1 ||
        read_of.evidence.finished.front().owner != read_of.subject)
        return unconvincing("it shows nothing that the owner reduced");
    DEDLOC_TRY(const bool right, reduction_is_right(read_of.evidence, context));
    if (right) return unconvincing("the owner reduced rightly");
    return {};
}

Ok false_row(const Order& order, ByteView bytes, const EvidenceContext& context) {
    DEDLOC_TRY_VOID(must_ban(order));
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    if (read_of.evidence.inputs.empty() || read_of.evidence.proof.size() != 1)
        return unconvincing("it shows no input");
    const std::uint32_t part = read_of.evidence.inputs.front().part;
    const auto& parts = read_of.evidence.proof.front().draw.parts;
    if (part >= parts.size()) return unconvincing("it shows a part that is none");
    DEDLOC_TRY(const bool right,
               row_is_right(read_of.evidence, parts[part].owner, read_of.subject, context));
    if (right) return unconvincing("the row is right");
    return {};
}

Ok false_accusation(const Order& order, ByteView bytes, const EvidenceContext& context) {
    DEDLOC_TRY_VOID(must_ban(order));
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    if (read_of.evidence.statements.size() != 1 || read_of.evidence.proof.size() != 1)
        return unconvincing("it shows no accusation");
    const SignedBy& statement = read_of.evidence.statements.front();
    const auto accusation = wire::decode<Accusation>(statement.payload);
    if (!accusation || accusation->draw != digest_of(read_of.evidence.proof.front().draw) ||
        accusation->accused >= read_of.plan->members.size() ||
        !context.verifier.verify(
            order.subject, accusation_domain, statement.payload, statement.signature))
        return unconvincing("the accusation is not signed by the one it is about");
    DEDLOC_TRY(const bool right,
               row_is_right(read_of.evidence, read_of.subject, accusation->accused, context));
    if (!right) return unconvincing("the accusation is right");
    return {};
}

// Testimonies about one thing, of so many voters that one of them is honest.
Ok testified(const Order& order,
             const ReadEvidence& read_of,
             const EvidenceContext& context,
             const std::function<bool(const Testimony&)>& fits) {
    if (order.from_step > read_of.plan->instance.step + testimony_steps_max)
        return unconvincing("it is about a round of long ago");
    std::set<PeerId> witnesses;
    for (const SignedBy& statement : read_of.evidence.statements) {
        const auto testimony = wire::decode<Testimony>(statement.payload);
        if (!testimony || testimony->plan != read_of.plan_digest || !fits(*testimony))
            return unconvincing("a testimony is about something else");
        if (statement.member >= read_of.plan->members.size())
            return unconvincing("a stranger testifies");
        const PeerId& witness = read_of.plan->members[statement.member].peer;
        const bool votes = std::ranges::find(context.voters, witness, &consensus::Voter::peer) !=
                           context.voters.end();
        if (!votes || witness == order.subject) return unconvincing("a witness is none");
        if (!context.verifier.verify(
                witness, testimony_domain, statement.payload, statement.signature))
            return unconvincing("a testimony is not signed");
        witnesses.insert(witness);
    }
    if (witnesses.size() < robust::findings_needed(context.voters.size()))
        return unconvincing("too few testify");
    return {};
}

Ok withheld(const Order& order, ByteView bytes, const EvidenceContext& context) {
    if (order.kind != OrderKind::probation)
        return unconvincing("who keeps something back is put on probation");
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    return testified(order, read_of, context, [&](const Testimony& testimony) {
        return testimony.subject == read_of.subject &&
               testimony.observation != Observation::unshown;
    });
}

Ok unjudged(const Order& order, ByteView bytes, const EvidenceContext& context) {
    if (order.kind != OrderKind::eliminate)
        return unconvincing("those whom nobody can judge are eliminated");
    DEDLOC_TRY(const ReadEvidence read_of, read(order, bytes));
    std::optional<Testimony> first;
    return testified(order, read_of, context, [&](const Testimony& testimony) {
        if (!first) first = testimony;
        return testimony == *first && testimony.observation == Observation::unshown &&
               (testimony.subject == read_of.subject || testimony.owner == read_of.subject);
    });
}

Ok double_vote(const Order& order, ByteView bytes, const EvidenceContext& context) {
    DEDLOC_TRY_VOID(must_ban(order));
    const auto evidence = wire::decode<Evidence>(bytes);
    if (!evidence || evidence->votes.size() != 2) return unconvincing("it shows no two votes");
    std::vector<consensus::Decision> decisions;
    for (const ShownVote& vote : evidence->votes) {
        auto decision = wire::decode<consensus::Decision>(vote.decision);
        if (!decision) return unconvincing("a decision cannot be read");
        const Bytes text =
            consensus::vote_bytes(consensus::decision_digest(vote.decision), vote.ballot);
        if (!context.verifier.verify(order.subject, consensus::vote_domain, text, vote.signature))
            return unconvincing("a vote is not signed by the one it is about");
        decisions.push_back(*std::move(decision));
    }
    const bool same_question = decisions[0].previous == decisions[1].previous &&
                               decisions[0].instance == decisions[1].instance &&
                               evidence->votes[0].ballot == evidence->votes[1].ballot;
    const bool branch = std::ranges::any_of(decisions, [](const consensus::Decision& decision) {
        return decision.kind == consensus::DecisionKind::branch;
    });
    if (!same_question || branch || evidence->votes[0].decision == evidence->votes[1].decision)
        return unconvincing("both votes may be given");
    return {};
}

}  // namespace

Result<bool> row_is_right(const Evidence& evidence,
                          std::uint32_t owner,
                          std::uint32_t member,
                          const EvidenceContext& context) {
    if (evidence.proof.size() != 1) return unconvincing("it shows no draw");
    const Proof& proof = evidence.proof.front();
    auto read_plan = wire::decode<consensus::RoundPlan>(evidence.plan);
    if (!read_plan || !is_whole(*read_plan)) return unconvincing("its plan cannot be read");
    const auto plan = std::make_shared<const consensus::RoundPlan>(*std::move(read_plan));
    if (proof.draw.plan != consensus::decision_digest(evidence.plan) ||
        member >= plan->members.size())
        return unconvincing("its draw is of another plan");
    DEDLOC_TRY_VOID(check_draw(context.verifier, *plan, proof.draw));
    const Reveal* const reveal = reveal_of(proof.draw, member);
    const auto answer = std::ranges::find(proof.answers, member, &SignedBy::member);
    if (reveal == nullptr || answer == proof.answers.end()) return unconvincing("it shows no row");
    DEDLOC_TRY(const std::vector<robust::Row> rows,
               rows_of(context.verifier, *plan, proof.draw, *answer));
    std::vector<allreduce::ReducedAverage> averages;
    for (const consensus::FinishedPart& header : proof.draw.parts) averages.push_back({header, {}});
    for (const ShownAverage& shown : evidence.averages) {
        if (shown.part >= averages.size() ||
            !allreduce::is_sound_average(allreduce::codec_of(*plan, shown.part),
                                         shown.encoded,
                                         static_cast<std::size_t>(plan->parts[shown.part].count),
                                         averages[shown.part].header.digest))
            return unconvincing("an average is not the one that its owner signed");
        averages[shown.part].encoded = SharedBytes(shown.encoded);
    }
    const allreduce::ProofRows again(
        plan, context.rule, seed_of(proof.draw), std::move(averages), context.workers);
    const std::vector<std::uint32_t> parts = again.parts_of(owner, member);
    if (parts.empty()) return unconvincing("no row is about that owner");
    std::map<std::uint32_t, SharedBytes> inputs;
    for (const std::uint32_t part : parts) {
        DEDLOC_TRY(inputs[part],
                   committed_input(evidence, *plan, part, member, reveal->commitment.root));
    }
    DEDLOC_TRY(const robust::Row row,
               again.row(owner, member, [&](std::uint32_t part) { return inputs[part]; }));
    const auto place = std::ranges::find(again.owners(), owner) - again.owners().begin();
    return rows[static_cast<std::size_t>(place)] == row;
}

Result<bool> reduction_is_right(const Evidence& evidence, const EvidenceContext& context) {
    auto plan = wire::decode<consensus::RoundPlan>(evidence.plan);
    if (!plan || !is_whole(*plan) || evidence.finished.size() != 1)
        return unconvincing("its plan cannot be read");
    const Digest plan_digest = consensus::decision_digest(evidence.plan);
    const consensus::FinishedPart& header = evidence.finished.front();
    if (!consensus::fits_plan(header, *plan, plan_digest) ||
        !context.verifier.verify(plan->members[header.owner].peer,
                                 consensus::part_domain,
                                 header.signed_bytes(),
                                 header.signature))
        return unconvincing("the owner did not sign it");
    std::map<std::uint32_t, Digest> roots;
    for (const SecondCommitment& each : evidence.commitments) {
        if (each.member >= plan->members.size() || !header.includes(each.member) ||
            !allreduce::is_signed(
                context.verifier, plan->members[each.member].peer, plan_digest, each.commitment))
            return unconvincing("a commitment is not signed");
        roots[each.member] = each.commitment.root;
    }
    if (allreduce::digest_of_roots(roots) != header.commitments)
        return unconvincing("the owner reduced something else");
    std::vector<allreduce::PartInput> inputs;
    for (std::uint32_t member = 0; member < plan->members.size(); ++member) {
        if (!header.includes(member) || plan->members[member].weightless) continue;
        if (!roots.contains(member)) return unconvincing("a commitment is missing");
        DEDLOC_TRY(SharedBytes encoded,
                   committed_input(evidence, *plan, header.part, member, roots[member]));
        inputs.push_back({member, std::move(encoded)});
    }
    const allreduce::CenteredClipReducer reducer(context.rule);
    const allreduce::ReducedPart again = reducer.reduce(*plan, header.part, inputs);
    Bytes weighing = consensus::no_members(*plan);
    for (const allreduce::PartInput& input : inputs) base::set_bit(weighing, input.member);
    return again.digest == header.digest && again.included == weighing;
}

EvidenceRules::EvidenceRules() {
    add(Offence::two_commitments, two_commitments);
    add(Offence::wrong_reduction, wrong_reduction);
    add(Offence::false_row, false_row);
    add(Offence::false_accusation, false_accusation);
    add(Offence::double_vote, double_vote);
    add(Offence::unjudged, unjudged);
    add(Offence::withheld, withheld);
}

void EvidenceRules::add(Offence offence, EvidenceRule rule) {
    rules_.emplace(offence, std::move(rule));
}

Ok EvidenceRules::check(const Order& order,
                        ByteView evidence,
                        const EvidenceContext& context) const {
    if (evidence.size() > evidence_bytes_max || security::sha256(evidence) != order.evidence)
        return unconvincing("it is not what the order names");
    Ok outcome = unconvincing("there is no rule for it");
    const auto [first, last] = rules_.equal_range(order.offence);
    for (auto rule = first; rule != last; ++rule) {
        outcome = rule->second(order, evidence, context);
        if (outcome) return outcome;
    }
    return outcome;
}

}  // namespace dedloc::averaging
