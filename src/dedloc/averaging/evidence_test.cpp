// One small round of three members, by hand: what proves a lie about it, and what does not.

#include "dedloc/averaging/evidence.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/kept_inputs.h"
#include "dedloc/allreduce/own_commitment.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/allreduce/proof_rows.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/base/random.h"
#include "dedloc/robust/draw.h"
#include "dedloc/runtime/work_in_place.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

using robust::Offence;
using robust::Order;
using robust::OrderKind;

constexpr std::size_t members = 3;
constexpr std::uint64_t part_elements = 40;

class RoundByHand : public ::testing::Test {
  protected:
    RoundByHand() {
        for (std::uint64_t i = 0; i < members; ++i) signers_.emplace_back(i + 1);
        std::ranges::sort(signers_, {}, [](const security::ToySigner& one) { return one.id(); });
        make_plan();
        for (std::uint32_t member = 0; member < members; ++member) contribute(member);
        for (std::uint32_t part = 0; part < members; ++part) reduce(part, 0);
        finish();
    }

    void make_plan() {
        consensus::RoundPlan plan;
        plan.leader = signers_[0].id();
        plan.reducer = allreduce::centered_clip_number;
        for (std::uint32_t i = 0; i < members; ++i) {
            consensus::PlanMember member;
            member.peer = signers_[i].id();
            member.input.fresh = {0, 4, 0};
            plan.members.push_back(member);
            plan.parts.push_back({i * part_elements, part_elements, i, std::nullopt});
        }
        plan_bytes_ = wire::encode(plan);
        plan_digest_ = consensus::decision_digest(plan_bytes_);
        plan_ = std::make_shared<const consensus::RoundPlan>(std::move(plan));
    }

    void contribute(std::uint32_t member) {
        Random random(member + 1);
        std::vector<Digest> digests;
        for (std::uint32_t part = 0; part < members; ++part) {
            std::vector<float> sum(part_elements);
            for (float& value : sum) value = static_cast<float>(random.normal());
            encoded_[member][part] = SharedBytes(codec::encode(codec::CodecId::fp32, sum));
            digests.push_back(security::hash_list(*encoded_[member][part]));
        }
        trees_.emplace_back(std::move(digests));
        const Digest nonce = allreduce::own_nonce(signers_[member], plan_digest_);
        const Digest hashed = robust::nonce_hash(&security::sha256, plan_digest_, member, nonce);
        Reveal reveal;
        reveal.plan = plan_digest_;
        reveal.member = member;
        reveal.nonce = nonce;
        reveal.commitment = allreduce::sign_commitment(
            signers_[member], plan_digest_, trees_[member].root(), hashed);
        draw_.reveals.push_back(reveal);
    }

    std::vector<allreduce::PartInput> inputs_of(std::uint32_t part) const {
        std::vector<allreduce::PartInput> inputs;
        for (std::uint32_t member = 0; member < members; ++member)
            inputs.push_back({member, encoded_[member][part]});
        return inputs;
    }

    // The owner adds `shift` to one element.
    void reduce(std::uint32_t part, float shift) {
        const allreduce::ReducedPart right =
            allreduce::CenteredClipReducer(rule_).reduce(*plan_, part, inputs_of(part));
        std::vector<float> average(part_elements);
        ASSERT_TRUE(codec::decode(codec::CodecId::fp32, *right.encoded, average));
        average[0] += shift;
        averages_[part] = SharedBytes(codec::encode(codec::CodecId::fp32, average));
        consensus::FinishedPart header;
        header.plan = plan_digest_;
        header.part = part;
        header.owner = part;
        header.included = right.included;
        header.digest = security::hash_list(*averages_[part]);
        std::map<std::uint32_t, Digest> roots;
        for (std::uint32_t member = 0; member < members; ++member)
            roots[member] = trees_[member].root();
        header.commitments = allreduce::digest_of_roots(roots);
        header.signature = signers_[part].sign(consensus::part_domain, header.signed_bytes());
        draw_.parts.resize(members);
        draw_.parts[part] = header;
    }

    void finish() {
        draw_.plan = plan_digest_;
        std::vector<allreduce::ReducedAverage> averages;
        for (std::uint32_t part = 0; part < members; ++part)
            averages.push_back({draw_.parts[part], averages_[part]});
        rows_ = std::make_unique<allreduce::ProofRows>(
            plan_, rule_, seed_of(draw_), std::move(averages), workers_);
        proof_ = Proof{draw_, {}};
        for (std::uint32_t member = 0; member < members; ++member)
            proof_.answers.push_back(answer_of(member, 0));
    }

    SignedBy answer_of(std::uint32_t member, float lie) const {
        std::vector<robust::Row> rows;
        for (std::uint32_t owner = 0; owner < members; ++owner)
            rows.push_back(
                rows_
                    ->row(owner, member, [&](std::uint32_t part) { return encoded_[member][part]; })
                    .value());
        rows[1].contribution[0] += lie;
        SignedBy statement;
        statement.member = member;
        statement.payload = wire::encode(Answer{digest_of(draw_), robust::encode_rows(rows)});
        statement.signature = signers_[member].sign(answer_domain, statement.payload);
        return statement;
    }

    bool adds_up(std::uint32_t owner) const {
        const RowTable table = rows_of(verifier_, *plan_, proof_).value();
        std::vector<const robust::Row*> column;
        for (const auto& [member, rows] : table) column.push_back(&rows[owner]);
        return rows_->check_sums(owner, column).has_value();
    }

    ShownInput shown(std::uint32_t part, std::uint32_t member) const {
        return {part, member, trees_[member].path(part), to_bytes(*encoded_[member][part])};
    }

    Evidence about_part(std::uint32_t part) const {
        Evidence evidence;
        evidence.plan = plan_bytes_;
        evidence.finished.push_back(draw_.parts[part]);
        for (std::uint32_t member = 0; member < members; ++member) {
            evidence.commitments.push_back({member, draw_.reveals[member].commitment});
            evidence.inputs.push_back(shown(part, member));
        }
        return evidence;
    }

    Evidence about_row(std::uint32_t owner, std::uint32_t member) const {
        Evidence evidence;
        evidence.plan = plan_bytes_;
        evidence.proof.push_back(Proof{draw_, {proof_.answers[member]}});
        evidence.inputs.push_back(shown(owner, member));
        evidence.averages.push_back({owner, to_bytes(*averages_[owner])});
        return evidence;
    }

    Ok check(OrderKind kind,
             Offence offence,
             std::uint32_t subject,
             const Evidence& evidence) const {
        const Bytes bytes = wire::encode(evidence);
        Order order;
        order.kind = kind;
        order.offence = offence;
        order.subject = signers_[subject].id();
        order.until_step = robust::for_good;
        order.evidence = security::sha256(bytes);
        std::vector<consensus::Voter> voters;
        for (const security::ToySigner& signer : signers_) voters.push_back({signer.id(), 1, true});
        return rules_.check(order, bytes, {verifier_, rule_, voters, workers_});
    }
    Ok ban(Offence offence, std::uint32_t subject, const Evidence& evidence) const {
        return check(OrderKind::ban, offence, subject, evidence);
    }

    SignedBy testimony(std::uint32_t witness, Observation observation) const {
        SignedBy statement;
        statement.member = witness;
        statement.payload = wire::encode(Testimony{plan_digest_, observation, 2, 0, 2});
        statement.signature = signers_[witness].sign(testimony_domain, statement.payload);
        return statement;
    }

    const security::ToyVerifier verifier_;
    mutable runtime::WorkInPlace workers_;
    const EvidenceRules rules_;
    allreduce::CenteredClipRule rule_{.tau = 4};
    std::vector<security::ToySigner> signers_;
    std::shared_ptr<const consensus::RoundPlan> plan_;
    Bytes plan_bytes_;
    Digest plan_digest_;
    SharedBytes encoded_[members][members];  // by member and part
    std::vector<allreduce::MerkleTree> trees_;
    SharedBytes averages_[members];
    DrawMessage draw_;
    std::unique_ptr<allreduce::ProofRows> rows_;
    Proof proof_;
};

TEST_F(RoundByHand, ThatIsHonestAddsUpAndProvesNobodyGuilty) {
    EXPECT_TRUE(check_draw(verifier_, *plan_, draw_));
    EXPECT_TRUE(contradicting_owners(draw_).empty());
    for (std::uint32_t owner = 0; owner < members; ++owner) {
        EXPECT_TRUE(adds_up(owner));
        EXPECT_FALSE(ban(Offence::wrong_reduction, owner, about_part(owner)));
        EXPECT_FALSE(ban(Offence::false_row, 2, about_row(owner, 2)));
    }
}

TEST_F(RoundByHand, AShiftedPartDoesNotAddUpAndConvictsItsOwnerOnly) {
    reduce(1, 0.5f);
    finish();
    EXPECT_TRUE(adds_up(0));
    EXPECT_FALSE(adds_up(1));
    EXPECT_TRUE(ban(Offence::wrong_reduction, 1, about_part(1)));
    EXPECT_FALSE(ban(Offence::wrong_reduction, 0, about_part(1)));
    Evidence without_one = about_part(1);
    without_one.inputs.pop_back();
    EXPECT_FALSE(ban(Offence::wrong_reduction, 1, without_one));
}

TEST_F(RoundByHand, AnInputThatWasNotCommittedToConvictsNoOwner) {
    Evidence evidence = about_part(1);
    evidence.inputs[0].encoded[3] ^= 1;
    EXPECT_FALSE(ban(Offence::wrong_reduction, 1, evidence));
    // Nor does a second commitment that the member signs to frame it.
    const auto other = allreduce::sign_commitment(
        signers_[0], plan_digest_, trees_[1].root(), draw_.reveals[0].commitment.nonce_hash);
    evidence = about_part(1);
    evidence.commitments[0].commitment = other;
    evidence.inputs[0] = shown(1, 1);
    evidence.inputs[0].member = 0;
    EXPECT_FALSE(ban(Offence::wrong_reduction, 1, evidence));
}

TEST_F(RoundByHand, AFalseRowConvictsItsAuthorAndARightOneItsAccuser) {
    SignedBy accusation;
    accusation.member = 1;
    accusation.payload = wire::encode(Accusation{digest_of(draw_), 2});
    accusation.signature = signers_[1].sign(accusation_domain, accusation.payload);
    Evidence right = about_row(1, 2);
    right.statements.push_back(accusation);
    EXPECT_TRUE(ban(Offence::false_accusation, 1, right));
    EXPECT_FALSE(ban(Offence::false_accusation, 0, right));

    proof_.answers[2] = answer_of(2, 1.0f);
    EXPECT_TRUE(ban(Offence::false_row, 2, about_row(1, 2)));
    EXPECT_FALSE(ban(Offence::false_row, 0, about_row(1, 0)));
    Evidence wrong = about_row(1, 2);
    wrong.statements.push_back(accusation);
    EXPECT_FALSE(ban(Offence::false_accusation, 1, wrong));
}

TEST_F(RoundByHand, TwoCommitmentsInOnePlanConvictTheirAuthor) {
    Evidence evidence;
    evidence.plan = plan_bytes_;
    evidence.commitments.push_back({0, draw_.reveals[0].commitment});
    evidence.commitments.push_back({0, draw_.reveals[0].commitment});
    EXPECT_FALSE(ban(Offence::two_commitments, 0, evidence));
    evidence.commitments[1].commitment = allreduce::sign_commitment(
        signers_[0], plan_digest_, trees_[1].root(), draw_.reveals[0].commitment.nonce_hash);
    EXPECT_TRUE(ban(Offence::two_commitments, 0, evidence));
    EXPECT_FALSE(ban(Offence::two_commitments, 1, evidence));
}

TEST_F(RoundByHand, ProbationNeedsSeveralVotersWhoSawTheSame) {
    Evidence evidence;
    evidence.plan = plan_bytes_;
    evidence.statements = {testimony(0, Observation::kept_back)};
    EXPECT_FALSE(check(OrderKind::probation, Offence::withheld, 2, evidence));
    evidence.statements.push_back(testimony(0, Observation::kept_back));
    EXPECT_FALSE(check(OrderKind::probation, Offence::withheld, 2, evidence));
    evidence.statements[1] = testimony(1, Observation::kept_back);
    EXPECT_TRUE(check(OrderKind::probation, Offence::withheld, 2, evidence));
    EXPECT_FALSE(ban(Offence::withheld, 2, evidence));
    EXPECT_FALSE(check(OrderKind::probation, Offence::withheld, 1, evidence));
    evidence.statements = {testimony(0, Observation::unshown), testimony(1, Observation::unshown)};
    EXPECT_TRUE(check(OrderKind::eliminate, Offence::unjudged, 2, evidence));
}

TEST_F(RoundByHand, ADrawWithoutEverybodysNonceIsRefused) {
    DrawMessage less = draw_;
    less.reveals.pop_back();
    EXPECT_FALSE(check_draw(verifier_, *plan_, less));
    DrawMessage changed = draw_;
    changed.reveals[0].nonce.bytes[0] ^= 1;
    EXPECT_FALSE(check_draw(verifier_, *plan_, changed));
}

TEST(Evidence, OfRandomBytesIsRefusedWithoutHarm) {
    const security::ToyVerifier verifier;
    runtime::WorkInPlace workers;
    const EvidenceRules rules;
    Random random(5);
    for (int i = 0; i < 200; ++i) {
        const Bytes bytes = random.bytes(random.below(300));
        Order order;
        order.offence = static_cast<Offence>(random.below(8));
        order.evidence = security::sha256(bytes);
        EXPECT_FALSE(rules.check(order, bytes, {verifier, {}, {}, workers}));
    }
}

}  // namespace
}  // namespace dedloc::averaging
