#include "dedloc/averaging/double_votes.h"

#include <gtest/gtest.h>

#include "dedloc/consensus/ledger.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

consensus::Decision abort_of(std::uint64_t number, double samples) {
    consensus::Decision decision;
    decision.kind = consensus::DecisionKind::abort;
    decision.number = number;
    decision.instance.step = number;
    decision.branch_samples = samples;
    return decision;
}

Bytes certified(const consensus::Decision& decision,
                std::uint32_t ballot,
                const std::vector<security::ToySigner>& signers) {
    consensus::Certificate certificate;
    certificate.decision = wire::encode(decision);
    certificate.ballot = ballot;
    const Bytes vote =
        consensus::vote_bytes(consensus::decision_digest(certificate.decision), ballot);
    for (const security::ToySigner& signer : signers)
        certificate.votes.push_back({signer.id(), signer.sign(consensus::vote_domain, vote)});
    return wire::encode(certificate);
}

class DoubleVotesTest : public testing::Test {
  protected:
    std::vector<DoubleVote> inspect(const Bytes& certificate, std::uint64_t number = 5) {
        return votes_.inspect(verifier_, number, certificate);
    }
    const security::ToyVerifier verifier_;
    const std::vector<security::ToySigner> one_{security::ToySigner(1)};
    const std::vector<security::ToySigner> both_{security::ToySigner(1), security::ToySigner(2)};
    DoubleVotes votes_;
};

TEST_F(DoubleVotesTest, two_decisions_under_one_ballot_show_who_signed_both) {
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, both_)).empty());
    const auto found = inspect(certified(abort_of(5, 2), 3, one_));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found.front().voter, one_.front().id());
    EXPECT_NE(found.front().first.decision, found.front().second.decision);
}

TEST_F(DoubleVotesTest, the_same_decision_another_ballot_and_another_question_are_no_lie) {
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, both_)).empty());
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, one_)).empty());
    EXPECT_TRUE(inspect(certified(abort_of(5, 2), 4, one_)).empty());
    consensus::Decision elsewhere = abort_of(5, 3);
    elsewhere.previous.bytes[0] = 1;
    EXPECT_TRUE(inspect(certified(elsewhere, 3, one_)).empty());
    consensus::Decision branch = abort_of(5, 4);
    branch.kind = consensus::DecisionKind::branch;
    EXPECT_TRUE(inspect(certified(branch, 3, one_)).empty());
}

TEST_F(DoubleVotesTest, a_vote_that_the_voter_did_not_sign_says_nothing_about_it) {
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, both_)).empty());
    auto forged = wire::decode<consensus::Certificate>(certified(abort_of(5, 2), 3, one_)).value();
    forged.votes.front().voter = both_.back().id();
    EXPECT_TRUE(inspect(wire::encode(forged)).empty());
}

TEST_F(DoubleVotesTest, decisions_of_long_ago_and_of_later_are_not_kept) {
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, one_), 8).empty());
    EXPECT_TRUE(inspect(certified(abort_of(5, 2), 3, one_), 3).empty());
    EXPECT_TRUE(inspect(certified(abort_of(5, 3), 3, one_), 5).empty());
    EXPECT_TRUE(inspect(Bytes{1, 2, 3}).empty());
}

TEST_F(DoubleVotesTest, of_many_certificates_the_newest_are_remembered) {
    EXPECT_TRUE(inspect(certified(abort_of(5, 1), 3, one_)).empty());
    for (std::uint32_t ballot = 10; ballot < 26; ++ballot)
        EXPECT_TRUE(inspect(certified(abort_of(5, 1), ballot, one_)).empty());
    EXPECT_TRUE(inspect(certified(abort_of(5, 2), 3, one_)).empty());    // the first is forgotten
    EXPECT_EQ(inspect(certified(abort_of(5, 2), 25, one_)).size(), 1u);  // the last is not
}

}  // namespace
}  // namespace dedloc::averaging
