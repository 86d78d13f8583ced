#include "dedloc/validation/gradient_recheck.h"

#include <gtest/gtest.h>

#include "dedloc/validation/gradient_recheck_testing.h"

namespace dedloc::validation {
namespace {

using robust::Offence;
using robust::OrderKind;

constexpr std::uint32_t author = 5;

class GradientRecheckTest : public testing::Test {
  protected:
    GradientRecheckTest() {
        for (std::uint64_t i = 0; i < 6; ++i) signers_.emplace_back(i + 1);
        add_gradient_rules(rules_, {.tolerance = 2e-3, .right_needed = 2});
    }
    RoundOfValues round(std::uint64_t step, std::set<std::uint32_t> weightless = {}) const {
        std::vector<const security::Signer*> all;
        for (const security::ToySigner& signer : signers_) all.push_back(&signer);
        return RoundOfValues(std::move(all), step, std::move(weightless));
    }
    const PeerId& id(std::uint32_t member) const { return signers_[member].id(); }
    // At step 20, of which everybody is a voter.
    Ok check(OrderKind kind,
             Offence offence,
             std::uint32_t subject,
             std::vector<GradientRecheck> rechecks,
             bool voted = false) const {
        const Bytes bytes = wire::encode(GradientEvidence{std::move(rechecks), voted});
        robust::Order order;
        order.kind = kind;
        order.offence = offence;
        order.subject = id(subject);
        order.from_step = 20;
        order.until_step = robust::for_good;
        order.evidence = security::sha256(bytes);
        std::vector<consensus::Voter> voters;
        for (const security::ToySigner& signer : signers_) voters.push_back({signer.id(), 1, true});
        return rules_.check(order, bytes, {verifier_, {}, voters, workers_, orders_, voted});
    }
    Ok probation(std::uint32_t subject, const GradientRecheck& one) const {
        return check(OrderKind::probation, Offence::mistaken, subject, {one});
    }
    void erred_before(OrderKind kind, std::uint32_t subject, std::uint64_t step) {
        robust::Order order;
        order.kind = kind;
        order.offence = Offence::mistaken;
        order.subject = id(subject);
        order.from_step = step;
        order.until_step = robust::for_good;
        EXPECT_TRUE(orders_.add(order));
    }

    const security::ToyVerifier verifier_;
    mutable runtime::WorkInPlace workers_;
    std::vector<security::ToySigner> signers_;
    averaging::EvidenceRules rules_;
    robust::Orders orders_;
};

TEST_F(GradientRecheckTest, half_of_the_voters_who_agree_put_the_author_on_probation) {
    const RoundOfValues of = round(19);
    EXPECT_TRUE(probation(author, of.about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}})));
    EXPECT_FALSE(probation(author, of.about(author, 1.5f, {{0, 1}, {1, 1}})));
    EXPECT_FALSE(probation(author, of.about(author, 1.5f, {{0, 1}, {1, 2}, {2, 3}})));
    EXPECT_FALSE(probation(author, of.about(author, 1, {{0, 1}, {1, 1}, {2, 1}})));
    EXPECT_FALSE(probation(0, of.about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}})));
}

// Fewer than a third of six voters are one; two who swear the same are not enough either.
TEST_F(GradientRecheckTest, liars_that_are_too_few_accuse_in_vain_and_answer_for_it) {
    const RoundOfValues of = round(19);
    const GradientRecheck framed = of.about(author, 1, {{0, 7}, {1, 7}, {2, 1}, {3, 1}, {4, 1}});
    EXPECT_FALSE(probation(author, framed));
    EXPECT_TRUE(probation(0, framed));
    EXPECT_TRUE(probation(1, framed));
    EXPECT_FALSE(probation(2, framed));
}

TEST_F(GradientRecheckTest, a_finding_that_is_not_signed_or_is_of_another_draw_spoils_the_case) {
    const RoundOfValues of = round(19);
    GradientRecheck one = of.about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}});
    one.findings[1].signature[0] ^= 1;
    EXPECT_FALSE(probation(author, one));
    one = of.about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}});
    one.findings[1] = round(18).finding(1, author, 1);
    EXPECT_FALSE(probation(author, one));
    one = of.about(author, 1.5f, {{0, 1}, {1, 1}, {1, 1}});
    EXPECT_FALSE(probation(author, one));
}

TEST_F(GradientRecheckTest, what_was_long_ago_is_no_reason) {
    EXPECT_FALSE(check(OrderKind::ban,
                       Offence::wrong_gradient,
                       author,
                       {round(19).about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}})}));
    GradientRecheck late = round(20 + recheck_steps_max).about(author, 1, {});
    EXPECT_FALSE(probation(author, late));
}

TEST_F(GradientRecheckTest, whoever_errs_again_after_it_was_told_is_banned) {
    const auto wrong = [&](const RoundOfValues& of) {
        return of.about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}});
    };
    const auto ban = [&](const GradientRecheck& one) {
        return check(OrderKind::ban, Offence::wrong_gradient, author, {one});
    };
    EXPECT_FALSE(ban(wrong(round(12, {author}))));
    erred_before(OrderKind::probation, author, 10);
    EXPECT_TRUE(ban(wrong(round(12, {author}))));
    // Samples computed before it was told are forgiven.
    EXPECT_FALSE(ban(wrong(round(11, {author}))));
    // The subject weighed something: it had not been told.
    EXPECT_FALSE(ban(wrong(round(12))));
    EXPECT_FALSE(ban(round(12, {author}).about(author, 1.5f, {{0, 1}, {1, 1}})));
    EXPECT_FALSE(ban(round(12, {author}).about(author, 1, {{0, 1}, {1, 1}, {2, 1}})));
}

// A peer that keeps something back has not computed anything wrong yet.
TEST_F(GradientRecheckTest, a_probation_for_something_else_is_no_first_mistake) {
    robust::Order order;
    order.kind = OrderKind::probation;
    order.offence = Offence::withheld;
    order.subject = id(author);
    order.from_step = 10;
    order.until_step = 30;
    ASSERT_TRUE(orders_.add(order));
    EXPECT_FALSE(check(OrderKind::ban,
                       Offence::wrong_gradient,
                       author,
                       {round(12, {author}).about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}})}));
}

TEST_F(GradientRecheckTest, whoever_errs_again_after_it_was_let_in_again_is_banned_for_that_alone) {
    const GradientRecheck again = round(18).about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}});
    const GradientRecheck accuses = round(18).about(author, 1, {{0, 7}, {1, 1}, {2, 1}, {3, 1}});
    EXPECT_FALSE(check(OrderKind::ban, Offence::wrong_gradient, author, {again}));
    erred_before(OrderKind::vouch, author, 15);
    erred_before(OrderKind::vouch, 0, 15);
    EXPECT_TRUE(check(OrderKind::ban, Offence::wrong_gradient, author, {again}));
    EXPECT_TRUE(check(OrderKind::ban, Offence::wrong_gradient, 0, {accuses}));
    EXPECT_FALSE(check(OrderKind::ban, Offence::wrong_gradient, 1, {accuses}));
    // Errors before the readmission are forgiven.
    const GradientRecheck before = round(14).about(author, 1.5f, {{0, 1}, {1, 1}, {2, 1}});
    EXPECT_FALSE(check(OrderKind::ban, Offence::wrong_gradient, author, {before}));
}

TEST_F(GradientRecheckTest, a_newcomer_is_known_when_it_was_right_as_often_as_the_run_wants) {
    const auto right = [&](std::uint64_t step, std::uint32_t finder) {
        return round(step, {author}).about(author, 1, {{finder, 1}});
    };
    const auto vouch = [&](Offence offence, std::vector<GradientRecheck> rechecks) {
        return check(OrderKind::vouch, offence, author, std::move(rechecks));
    };
    EXPECT_TRUE(vouch(Offence::none, {right(16, 0), right(17, 1)}));
    EXPECT_FALSE(vouch(Offence::none, {right(16, 0)}));
    EXPECT_FALSE(vouch(Offence::none, {right(16, 0), right(16, 1)}));
    EXPECT_FALSE(vouch(Offence::none, {right(16, 0), right(17, 0)})) << "by one, an accomplice";
    EXPECT_FALSE(vouch(Offence::none, {right(17, 0), round(18).about(author, 1, {})}));
    EXPECT_FALSE(vouch(Offence::mistaken, {right(16, 0), right(17, 1)}));
    // A peer that has erred gets one that says so, for what it did since.
    erred_before(OrderKind::probation, author, 15);
    EXPECT_FALSE(vouch(Offence::none, {right(16, 0), right(17, 1)}));
    EXPECT_FALSE(vouch(Offence::mistaken, {right(15, 0), right(17, 1)}));
    EXPECT_TRUE(vouch(Offence::mistaken, {right(16, 0), right(17, 1)}));
}

TEST_F(GradientRecheckTest, a_voter_that_left_is_known_unless_it_had_erred) {
    EXPECT_TRUE(check(OrderKind::vouch, Offence::none, author, {}, /*voted=*/true));
    EXPECT_FALSE(check(OrderKind::vouch, Offence::none, author, {}, /*voted=*/false));
    erred_before(OrderKind::vouch, author, 15);  // would be forgotten by another
    EXPECT_FALSE(check(OrderKind::vouch, Offence::none, author, {}, /*voted=*/true));
}

}  // namespace
}  // namespace dedloc::validation
