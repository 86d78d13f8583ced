#include "dedloc/consensus/ledger.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
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
        RoundPlan plan;
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

// A certificate without voters before it needs somebody's signature, a beginning all it names.
TEST_F(LedgerTest, a_beginning_that_nobody_signed_is_refused) {
    const auto unsigned_one = [](const Decision& decision) {
        Certificate certificate;
        certificate.decision = wire::encode(decision);
        return wire::encode(certificate);
    };
    Ledger fresh(verifier_, 8);
    EXPECT_FALSE(fresh.start_from(unsigned_one(before_.newest_decision())));
    EXPECT_FALSE(fresh.start_from(unsigned_one(step())));
    EXPECT_TRUE(fresh.start_from(signed_by_voter(step())));
    const security::ToySigner stranger(9);
    Decision branch;
    branch.kind = DecisionKind::branch;
    branch.run = run_;
    branch.next_voters = {{stranger.id(), 1}};  // the other one signs
    EXPECT_FALSE(fresh.start_from(signed_by_voter(branch)));
    branch.branch_samples = HUGE_VAL;
    branch.next_voters = {voter()};
    EXPECT_FALSE(fresh.start_from(signed_by_voter(branch)));
}

TEST_F(LedgerTest, a_commit_that_cannot_be_computed_with_is_refused_whoever_signed_it) {
    const auto changed = [this](const std::function<void(Decision&, RoundPlan&)>& change) {
        Decision decision = step();
        RoundPlan plan = *wire::decode<RoundPlan>(decision.plan);
        change(decision, plan);
        decision.plan = wire::encode(plan);
        return signed_by_voter(decision);
    };
    const std::vector<std::function<void(Decision&, RoundPlan&)>> changes = {
        [](Decision& decision, RoundPlan&) { decision.parts.clear(); },
        [](Decision& decision, RoundPlan&) { decision.parts.push_back(decision.parts[0]); },
        [](Decision& decision, RoundPlan&) { decision.parts[0].owner = 9999; },
        [](Decision&, RoundPlan& plan) { plan.parts[0].owner = 9999; },
        [](Decision&, RoundPlan& plan) {
            plan.members[0].input.fresh = {10, 0, 0};
        },
        [](Decision&, RoundPlan& plan) {
            plan.members[0].input.fresh = {0, ~std::uint64_t{0} / 2, 0};
        },
        [](Decision& decision, RoundPlan&) { decision.branch_samples = HUGE_VAL; }};
    for (const auto& change : changes) {
        const auto accepted = before_.accept(changed(change));
        ASSERT_FALSE(accepted);
        EXPECT_EQ(accepted.error().kind(), ErrorKind::peer_broke_protocol);
        EXPECT_FALSE(Ledger(verifier_, 8).start_from(changed(change)));
    }
    EXPECT_TRUE(before_.accept(changed([](Decision&, RoundPlan&) {})));
}

// With fragments the same samples are brought to each, and to none of them twice.
TEST_F(LedgerTest, samples_of_one_fragment_may_be_brought_to_another) {
    MemberInput again;
    again.fresh = {0, 3, 0};
    EXPECT_FALSE(after_.check_not_committed(signer_.id(), again, 0));
    EXPECT_TRUE(after_.check_not_committed(signer_.id(), again, 8));
    again.fresh = {3, 6, 0};
    EXPECT_TRUE(after_.check_not_committed(signer_.id(), again, 0));
}

TEST_F(LedgerTest, a_fragment_counts_as_its_part_of_the_samples) {
    RoundPlan plan = *wire::decode<RoundPlan>(step().plan);
    plan.whole_count = 32;
    EXPECT_EQ(vector_count(plan), 32u);
    EXPECT_EQ(committed_samples(plan, step().parts, vector_count(plan)), 3 * 8 / 32.0);
    plan.parts = {{24, 8, 0}};
    EXPECT_EQ(moved_range(plan), (ElementRange{24, 8}));
    EXPECT_EQ(committed_samples(plan, step().parts, vector_count(plan)), 3 * 8 / 32.0);
}

TEST_F(LedgerTest, an_attempt_that_came_to_nothing_adds_no_samples) {
    Decision abort = step();
    abort.kind = DecisionKind::abort;
    abort.plan.clear();
    abort.parts.clear();
    EXPECT_FALSE(before_.accept(signed_by_voter(abort)));
    abort.branch_samples = samples_first;
    EXPECT_TRUE(before_.accept(signed_by_voter(abort)));
}

TEST_F(LedgerTest, a_branch_of_others_waits_until_it_may_be_followed) {
    const security::ToySigner survivor(9);
    const Bytes branch = make_branch_before(after_.newest_decision(), {survivor.id(), 1}, survivor);
    bool voters_live = true;
    before_.follow_branches_if([&](const Decision& decision) {
        EXPECT_EQ(decision.next_voters.front().peer, survivor.id());
        return !voters_live;
    });
    const auto refused = before_.accept(branch);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::conflict);
    voters_live = false;
    EXPECT_TRUE(before_.accept(branch));
}

}  // namespace
}  // namespace dedloc::consensus
