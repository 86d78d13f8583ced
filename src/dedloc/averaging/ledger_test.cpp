#include "dedloc/averaging/ledger.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr double samples_first = 0.1;  // 0.1 + 3 - 3 is not 0.1

// A run of one voter that has made one step of three samples.
class LedgerTest : public testing::Test {
  protected:
    LedgerTest() {
        run_.bytes[0] = 1;
        state_.bytes[0] = 2;
        genesis_ = make_genesis(run_, state_, voter(), signer_, 0, samples_first);
        EXPECT_TRUE(before_.start_from(genesis_));
        EXPECT_TRUE(after_.start_from(genesis_));
        EXPECT_TRUE(after_.accept(signed_by_voter(step())));
    }

    Voter voter() const { return {signer_.id(), 1}; }
    Decision step() const {
        Plan plan;
        plan.members.push_back({signer_.id(), 1, {}});
        plan.members.front().input.fresh = {0, 3, 0};
        plan.parts = {{0, 8, 0}};
        FinishedPart part;
        part.included = {1};
        Decision decision;
        decision.kind = DecisionKind::commit;
        decision.run = run_;
        decision.instance = before_.base().instance;
        decision.previous = before_.base().previous;
        decision.state_before = state_;
        decision.next_voters = {voter()};
        decision.number = before_.base().number + 1;
        decision.plan = wire::encode(plan);
        decision.parts = {part};
        decision.branch_samples =
            samples_first + committed_samples(plan, decision.parts, vector_count(plan));
        return decision;
    }
    Bytes signed_by_voter(const Decision& decision) const {
        Certificate certificate;
        certificate.decision = wire::encode(decision);
        const Digest digest = decision_digest(certificate.decision);
        certificate.votes.push_back(
            {signer_.id(), signer_.sign(vote_domain, vote_bytes(digest, 0))});
        return wire::encode(certificate);
    }

    security::ToySigner signer_{7};
    security::ToyVerifier verifier_;
    Digest run_;
    Digest state_;
    Bytes genesis_;
    Ledger before_{verifier_, 8};
    Ledger after_{verifier_, 8};
};

TEST_F(LedgerTest, a_branch_before_a_lost_step_counts_what_came_before_it) {
    const Decision& lost = after_.newest_decision();
    ASSERT_NEAR(lost.branch_samples, samples_first + 3, 1e-12);
    const security::ToySigner survivor(9);
    const Bytes branch = make_branch_before(lost, {survivor.id(), 1}, survivor);
    const auto accepted = before_.accept(branch);
    ASSERT_TRUE(accepted) << accepted.error().message();
    EXPECT_TRUE(*accepted);
    EXPECT_EQ(before_.newest_decision().kind, DecisionKind::branch);
    EXPECT_NEAR(before_.base().branch_samples, samples_first, 1e-12);
    EXPECT_EQ(before_.base().instance.step, 0u);
    EXPECT_EQ(before_.base().state, state_);
}

TEST_F(LedgerTest, a_branch_that_counts_more_samples_than_came_before_it_is_refused) {
    Decision branch;
    branch.kind = DecisionKind::branch;
    branch.run = run_;
    branch.previous = before_.base().previous;
    branch.state_before = state_;
    branch.next_voters = {voter()};
    branch.instance = {branch_id(branch.previous, branch.next_voters), 0, 0};
    branch.number = before_.base().number + 1;
    for (const double samples :
         {samples_first + 0.001, samples_first - 0.001, HUGE_VAL, std::nan("")}) {
        branch.branch_samples = samples;
        const auto accepted = before_.accept(signed_by_voter(branch));
        ASSERT_FALSE(accepted) << samples;
        EXPECT_EQ(accepted.error().kind(), ErrorKind::peer_broke_protocol);
    }
    branch.branch_samples = samples_first;
    EXPECT_TRUE(before_.accept(signed_by_voter(branch)));
}

}  // namespace
}  // namespace dedloc::averaging
