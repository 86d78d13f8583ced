#include "dedloc/consensus/protection.h"

#include <gtest/gtest.h>

#include "dedloc/consensus/ledger.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

// A robust run in the ledgers of two peers. Its decisions are the only thing that they know of it.
class ProtectionTest : public testing::Test {
  protected:
    ProtectionTest() {
        rules_.on = true;
        rules_.trust_after = 4;
        run_.bytes[0] = 1;
        state_.bytes[0] = 2;
        begin(ledger_);
    }

    void begin(Ledger& ledger) {
        ledger.protect(rules_);
        ASSERT_TRUE(ledger.start_from(
            make_genesis(run_, state_, Voter{host_.id(), 1, true}, host_, /*step=*/0, 0)));
    }
    PeerId peer(std::uint64_t number) const {
        return number == 0 ? host_.id() : security::toy_peer_id(100 + number);
    }
    // So many samples of each of these.
    RoundPlan plan_of(const std::map<std::uint64_t, std::uint64_t>& samples) const {
        const Base& base = ledger_.base();
        RoundPlan plan;
        plan.run = run_;
        plan.instance = base.instance;
        plan.previous = base.previous;
        plan.tau = base.protection.tau();
        plan.length_max = base.protection.length_max();
        const std::uint64_t begin = base.number * 1000;
        for (const auto& [number, count] : samples) {
            PlanMember member;
            member.peer = peer(number);
            member.incarnation = 1;
            member.input.fresh = {begin, begin + count, 0};
            member.weightless = !base.weighs(member.peer);
            member.trust = base.protection.trust_of(member.peer);
            plan.members.push_back(std::move(member));
        }
        std::ranges::sort(plan.members, {}, &PlanMember::peer);
        plan.parts = {{0, 8, 0}};
        return plan;
    }
    Decision abort() const {
        const Base& base = ledger_.base();
        Decision decision;
        decision.kind = DecisionKind::abort;
        decision.run = run_;
        decision.instance = base.instance;
        decision.previous = base.previous;
        decision.state_before = state_;
        decision.next_voters = base.voters;
        decision.number = base.number + 1;
        decision.branch_samples = base.branch_samples;
        base.protection.carry_into(decision, nullptr);
        return decision;
    }
    Decision commit(const RoundPlan& plan, StepSize size = {1, 2}) const {
        Decision decision = abort();
        decision.kind = DecisionKind::commit;
        decision.plan = wire::encode(plan);
        FinishedPart part;
        part.included = {0xff};
        decision.parts = {part};
        decision.size = size;
        decision.branch_samples += committed_samples(plan, decision.parts, vector_count(plan));
        ledger_.base().protection.carry_into(decision, &plan);
        return decision;
    }
    Ok accept(const Decision& decision) {
        Certificate certificate;
        certificate.decision = wire::encode(decision);
        const Digest digest = decision_digest(certificate.decision);
        certificate.votes.push_back({host_.id(), host_.sign(vote_domain, vote_bytes(digest, 0))});
        newest_ = wire::encode(certificate);
        auto accepted = ledger_.accept(newest_);
        if (!accepted) return std::move(accepted).error();
        ledger_.set_state(state_);
        return {};
    }
    // Steps of these peers, all with as many samples.
    void make_steps(int count, const std::vector<std::uint64_t>& peers, StepSize size = {1, 2}) {
        std::map<std::uint64_t, std::uint64_t> samples;
        for (const std::uint64_t each : peers) samples[each] = 10;
        for (int i = 0; i < count; ++i) {
            const Ok made = accept(commit(plan_of(samples), size));
            ASSERT_TRUE(made) << made.error().message();
        }
    }

    ProtectionRules rules_;
    Digest run_;
    Digest state_;
    security::ToySigner host_{1};
    security::ToyVerifier verifier_;
    Ledger ledger_{verifier_, 8};
    Bytes newest_;
};

TEST_F(ProtectionTest, only_the_founder_weighs_in_the_first_step) {
    EXPECT_TRUE(ledger_.base().weighs(peer(0)));
    EXPECT_FALSE(ledger_.base().weighs(peer(1)));
    make_steps(1, {0, 1});
    EXPECT_TRUE(ledger_.base().weighs(peer(1)));
}

TEST_F(ProtectionTest, a_step_needs_three_contributors_once_three_are_at_work) {
    make_steps(3, {0, 1});  // a run that is still smaller
    make_steps(1, {0, 1, 2});
    EXPECT_FALSE(accept(commit(plan_of({{0, 10}, {1, 10}}))));
    EXPECT_FALSE(accept(commit(plan_of({{1, 1000}}))));
    make_steps(1, {0, 1, 2});
}

TEST_F(ProtectionTest, a_run_of_two_goes_on_with_either_of_them) {
    make_steps(3, {0, 1});
    make_steps(1, {1});
    make_steps(1, {0});
    EXPECT_FALSE(accept(commit(plan_of({{2, 10}})))) << "not with a stranger alone";
}

// Two who collude are the majority of a plan that leaves most others out.
TEST_F(ProtectionTest, a_step_needs_more_than_two_thirds_of_the_weight_at_work) {
    make_steps(6, {0, 1, 2, 3, 4, 5, 6});
    EXPECT_FALSE(accept(commit(plan_of({{3, 10}, {4, 10}, {5, 10}, {6, 10}}))));
    make_steps(1, {2, 3, 4, 5, 6});
}

TEST_F(ProtectionTest, samples_that_are_claimed_now_count_for_nothing_in_it) {
    make_steps(6, {0, 1, 2, 3, 4, 5, 6});
    EXPECT_FALSE(accept(commit(plan_of({{4, 1000}, {5, 1000}, {6, 1000}}))));
    // Nor do new keys.
    EXPECT_FALSE(accept(commit(plan_of({{5, 10}, {6, 10}, {7, 1000}, {8, 1000}}))));
}

TEST_F(ProtectionTest, it_holds_in_each_part) {
    make_steps(6, {0, 1, 2});
    Decision decision = commit(plan_of({{0, 10}, {1, 10}, {2, 10}}));
    decision.parts.front().included = {0x3};
    EXPECT_FALSE(accept(decision));
}

// A peer that was at work is forgotten when so many decisions were made without it.
TEST_F(ProtectionTest, a_run_that_has_become_smaller_goes_on_after_some_attempts) {
    make_steps(2, {0, 1, 2});
    for (std::uint64_t attempt = 0; attempt < at_work_for; ++attempt) {
        EXPECT_FALSE(accept(commit(plan_of({{0, 10}, {1, 10}})))) << attempt;
        ASSERT_TRUE(accept(abort()));
    }
    make_steps(1, {0, 1});
}

TEST_F(ProtectionTest, a_young_key_weighs_little) {
    make_steps(1, {0});
    EXPECT_EQ(ledger_.base().protection.trust_of(peer(1)), trust_whole / 5);
    make_steps(1, {0, 1});
    EXPECT_EQ(ledger_.base().protection.trust_of(peer(1)), 2 * trust_whole / 5);
    make_steps(3, {0, 1});
    EXPECT_EQ(ledger_.base().protection.trust_of(peer(1)), 0u) << "whole";
    RoundPlan plan = plan_of({{0, 10}, {3, 10}});
    for (PlanMember& member : plan.members) member.trust = 0;
    EXPECT_FALSE(accept(commit(plan))) << "a leader lets a key weigh more than it may";
}

TEST_F(ProtectionTest, a_key_is_checked_in_each_step_until_it_is_trusted_and_then_less_and_less) {
    const Protection& protection = ledger_.base().protection;
    EXPECT_EQ(protection.check_chance(4, 0.0625), 1);
    EXPECT_EQ(protection.check_chance(8, 0.0625), 0.5);
    EXPECT_EQ(protection.check_chance(1000, 0.0625), 0.0625);
}

TEST_F(ProtectionTest, a_peer_that_is_kept_out_begins_anew) {
    make_steps(5, {0, 1, 2});
    Decision decision = abort();
    robust::Order order;
    order.kind = robust::OrderKind::probation;
    order.subject = peer(2);
    order.from_step = decision.instance.step;
    order.until_step = robust::for_good;
    decision.orders = {order};
    ledger_.base().protection.carry_into(decision, nullptr);
    ASSERT_TRUE(accept(decision));
    make_steps(1, {0, 1});
    EXPECT_EQ(ledger_.base().protection.trust_of(peer(2)), trust_whole / 5);
}

TEST_F(ProtectionTest, tau_is_the_median_of_the_distances_of_the_newest_steps) {
    make_steps(3, {0, 1, 2}, {1, 2});
    EXPECT_EQ(ledger_.base().protection.tau(), 2);
    make_steps(7, {0, 1, 2}, {1, 1e6});
    EXPECT_LT(ledger_.base().protection.tau(), 2 * distance_growth_most + 1)
        << "it grows by so much at a time";
    make_steps(static_cast<int>(sizes_max), {0, 1, 2}, {1, 3});
    EXPECT_EQ(ledger_.base().protection.tau(), 3);
    RoundPlan plan = plan_of({{0, 10}, {1, 10}, {2, 10}});
    plan.tau = 1000;
    EXPECT_FALSE(accept(commit(plan))) << "a leader chooses its own";
}

TEST_F(ProtectionTest, no_step_is_longer_than_honest_ones_allow) {
    make_steps(3, {0, 1, 2}, {1, 2});
    RoundPlan plan = plan_of({{0, 10}, {1, 10}, {2, 10}});
    EXPECT_EQ(plan.length_max, 2);
    const Decision poisoned = commit(plan, {1e7, 2});
    EXPECT_EQ(step_scale(poisoned, plan), 2 / 1e7);
    EXPECT_EQ(step_scale(commit(plan, {1.9, 2}), plan), 1);
    ASSERT_TRUE(accept(poisoned));
    EXPECT_EQ(ledger_.base().protection.sizes.back().length, 2) << "as it was applied";
    plan = plan_of({{0, 10}, {1, 10}, {2, 10}});
    plan.length_max = 1e9;
    EXPECT_FALSE(accept(commit(plan))) << "a leader chooses its own";
}

TEST_F(ProtectionTest, the_longest_step_follows_gradients_that_become_shorter) {
    make_steps(static_cast<int>(sizes_max), {0, 1, 2}, {10, 2});
    make_steps(4, {0, 1, 2}, {1, 2});
    EXPECT_EQ(ledger_.base().protection.length_max(), 2);
    make_steps(1, {0, 1, 2}, {1e7, 2});
    EXPECT_EQ(ledger_.base().protection.length_max(), 2) << "one liar's step changes nothing";
}

TEST_F(ProtectionTest, gradients_that_grow_for_good_are_followed_step_by_step) {
    make_steps(static_cast<int>(sizes_max), {0, 1, 2}, {1, 2});
    int steps = 0;
    while (ledger_.base().protection.length_max() < 20 || ledger_.base().protection.tau() < 40) {
        ASSERT_LT(++steps, 60);
        make_steps(1, {0, 1, 2}, {20, 40});
    }
}

TEST_F(ProtectionTest, a_decision_that_carries_something_else_is_refused) {
    make_steps(2, {0, 1, 2});
    Decision decision = commit(plan_of({{0, 10}, {1, 10}, {2, 10}}));
    decision.standings.front().steps += 10;
    EXPECT_FALSE(accept(decision));
    decision = commit(plan_of({{0, 10}, {1, 10}, {2, 10}}));
    decision.sizes.pop_back();
    EXPECT_FALSE(accept(decision));
    decision = commit(plan_of({{0, 10}, {1, 10}, {2, 10}}));
    decision.size.length = -1;
    EXPECT_FALSE(accept(decision));
}

// A newcomer that knows the newest certificate alone comes to the same answers.
TEST_F(ProtectionTest, all_of_it_is_in_the_newest_certificate) {
    make_steps(5, {0, 1, 2}, {1, 2});
    Ledger late(verifier_, 8);
    late.protect(rules_);
    ASSERT_TRUE(late.start_from(newest_));
    late.set_state(state_);
    EXPECT_EQ(late.base().protection.standings, ledger_.base().protection.standings);
    EXPECT_EQ(late.base().protection.tau(), ledger_.base().protection.tau());
    EXPECT_EQ(late.base().protection.length_max(), ledger_.base().protection.length_max());
    EXPECT_EQ(late.base().protection.at_work(late.base().number).size(), 3u);
}

TEST_F(ProtectionTest, a_run_that_goes_on_from_a_checkpoint_still_knows_it) {
    make_steps(5, {0, 1, 2}, {1, 2});
    const Bytes again = make_genesis(run_,
                                     state_,
                                     Voter{host_.id(), 1, true},
                                     host_,
                                     /*step=*/5,
                                     0,
                                     {},
                                     ledger_.base().protection);
    Ledger ledger(verifier_, 8);
    ledger.protect(rules_);
    ASSERT_TRUE(ledger.start_from(again));
    EXPECT_EQ(ledger.base().protection.tau(), 2);
    EXPECT_EQ(ledger.base().protection.trust_of(peer(1)), 0u);
    EXPECT_TRUE(ledger.base().protection.at_work(0).empty()) << "it is told again who is there";
}

}  // namespace
}  // namespace dedloc::consensus
