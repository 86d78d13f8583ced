#include "dedloc/validation/silent_validators.h"

#include <gtest/gtest.h>

#include "dedloc/validation/gradient_recheck_testing.h"

namespace dedloc::validation {
namespace {

class SilentValidatorsTest : public testing::Test {
  protected:
    SilentValidatorsTest() {
        for (std::uint64_t i = 0; i < 4; ++i) signers_.emplace_back(i + 1);
        for (const security::ToySigner& signer : signers_) {
            all_.push_back(&signer);
            voters_.push_back({signer.id(), 1, true});
        }
        round_ = std::make_unique<RoundOfValues>(all_, 7);
    }
    std::optional<averaging::Evidence> take(const averaging::SignedBy& statement) {
        return silent_.take(verifier_, round_->plan_bytes, round_->plan(), statement, voters_);
    }
    const security::ToyVerifier verifier_;
    std::vector<security::ToySigner> signers_;
    std::vector<const security::Signer*> all_;
    std::vector<consensus::Voter> voters_;
    std::unique_ptr<RoundOfValues> round_;
    SilentValidators silent_;
};

TEST_F(SilentValidatorsTest, one_round_is_forgiven_and_an_answer_makes_good) {
    const PeerId& validator = signers_[3].id();
    EXPECT_FALSE(silent_.missed(validator, 5));
    EXPECT_FALSE(silent_.missed(validator, 5));  // of the same round
    EXPECT_TRUE(silent_.missed(validator, 6));
    silent_.answered(validator, 7);
    EXPECT_FALSE(silent_.missed(validator, 8));
    EXPECT_TRUE(silent_.missed(validator, 9));
}

// Liars give voters more to check than there is time for: each round one answer comes, of a check
// that is several rounds old, and two others become late at once.
TEST_F(SilentValidatorsTest, who_answers_old_checks_each_round_is_late_but_not_silent) {
    const PeerId& validator = signers_[3].id();
    for (std::uint64_t newest = 10; newest < 60; ++newest) {
        silent_.answered(validator, newest);
        EXPECT_FALSE(silent_.missed(validator, newest - 5));
        EXPECT_FALSE(silent_.missed(validator, newest - 4));
    }
    // Nothing comes any more.
    EXPECT_FALSE(silent_.missed(validator, 59));
    EXPECT_FALSE(silent_.missed(validator, 60));
    EXPECT_TRUE(silent_.missed(validator, 61));
}

// The one that answered longest ago is forgotten first.
TEST_F(SilentValidatorsTest, remembers_who_answered_lately) {
    for (std::uint64_t i = 0; i <= SilentValidators::memory_max; ++i)
        silent_.answered(security::toy_peer_id(100 + i), 10 + i);
    const PeerId& first = security::toy_peer_id(100);
    EXPECT_FALSE(silent_.missed(first, 8));
    EXPECT_TRUE(silent_.missed(first, 9));
    const PeerId& last = security::toy_peer_id(100 + SilentValidators::memory_max);
    EXPECT_FALSE(silent_.missed(last, 8));
    EXPECT_FALSE(silent_.missed(last, 9));
}

TEST_F(SilentValidatorsTest, several_voters_that_say_the_same_are_evidence_once) {
    EXPECT_FALSE(take(round_->testimony(0, 3)));
    EXPECT_FALSE(take(round_->testimony(0, 3)));  // the same voter again
    EXPECT_FALSE(take(round_->testimony(3, 3)));  // about itself
    const auto evidence = take(round_->testimony(1, 3));
    ASSERT_TRUE(evidence);
    EXPECT_EQ(evidence->statements.size(), 2u);
    EXPECT_FALSE(take(round_->testimony(2, 3)));
    // The evidence convinces every voter.
    const Bytes bytes = wire::encode(*evidence);
    robust::Order order;
    order.kind = robust::OrderKind::probation;
    order.offence = robust::Offence::withheld;
    order.subject = signers_[3].id();
    order.from_step = 9;
    order.until_step = 29;
    order.evidence = security::sha256(bytes);
    runtime::WorkInPlace workers;
    const averaging::EvidenceRules rules;
    EXPECT_TRUE(rules.check(order, bytes, {verifier_, {}, voters_, workers}));
    // Not for ever.
    order.from_step = 8 + averaging::testimony_steps_max;
    EXPECT_FALSE(rules.check(order, bytes, {verifier_, {}, voters_, workers}));
}

TEST_F(SilentValidatorsTest, forged_and_strange_testimonies_count_for_nothing) {
    auto forged = round_->testimony(0, 3);
    forged.member = 1;
    EXPECT_FALSE(take(forged));
    EXPECT_FALSE(take(round_->testimony(0, 3)));
    EXPECT_FALSE(take(RoundOfValues(all_, 8).testimony(1, 3)));  // of another round
    voters_.erase(voters_.begin() + 1);
    EXPECT_FALSE(take(round_->testimony(1, 3)));  // votes no more
    EXPECT_TRUE(take(round_->testimony(2, 3)));
}

}  // namespace
}  // namespace dedloc::validation
