#include "dedloc/replica/deferred_gradients.h"

#include <gtest/gtest.h>

namespace dedloc::replica {
namespace {

consensus::RoundPlan plan_of_two_parts() {
    consensus::RoundPlan plan;
    plan.members.resize(1);
    plan.parts = {{0, 4, 0}, {4, 4, 0}};
    return plan;
}

consensus::Decision decision_without_us() {
    consensus::Decision decision;
    decision.parts.resize(2);
    for (consensus::FinishedPart& part : decision.parts) part.included = {0};
    return decision;
}

// Six gradients and two buffers. The others' changes of these are in the state by now, and ours
// began where theirs did.
TEST(DeferredGradients,
     gradients_that_came_late_are_in_the_next_step_and_changes_of_buffers_are_not) {
    DeferredGradients deferred(8, {}, 6, 1000);
    (void)deferred.hand_in({0, 16}, std::vector<float>(8, 1.0f));
    deferred.committed(plan_of_two_parts(), decision_without_us(), 0);
    EXPECT_TRUE(deferred.has_deferred());
    const auto next = deferred.hand_in({16, 32}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->sum, (std::vector<float>{11, 11, 11, 11, 11, 11, 10, 10}));
    EXPECT_EQ(next->input.carried_ranges, (std::vector<consensus::ElementRange>{{0, 6}}));
    EXPECT_EQ(deferred.samples_expired(), 16 * 2.0 / 8);
}

TEST(DeferredGradients, where_only_buffers_came_late_nothing_is_deferred) {
    DeferredGradients deferred(8, {}, 4, 1000);
    (void)deferred.hand_in({0, 16}, std::vector<float>(8, 1.0f));
    consensus::Decision decision = decision_without_us();
    decision.parts[0].included = {1};
    deferred.committed(plan_of_two_parts(), decision, 0);
    EXPECT_FALSE(deferred.has_deferred());
    EXPECT_EQ(deferred.hand_in({16, 32}, std::vector<float>(8, 10.0f))->input.carried.size(), 0u);
}

TEST(DeferredGradients, of_sums_that_are_a_step_old_gradients_go_on) {
    DeferredGradients deferred(8, {}, 6, 1000);
    deferred.hand_in_late({0, 16}, std::vector<float>(8, 1.0f));
    const auto next = deferred.hand_in({16, 32}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->sum, (std::vector<float>{11, 11, 11, 11, 11, 11, 10, 10}));
}

TEST(DeferredGradients, more_samples_than_a_round_takes_are_not_handed_in_together) {
    DeferredGradients deferred(8, {}, 8, 40);
    (void)deferred.hand_in({0, 24}, std::vector<float>(8, 1.0f));
    deferred.committed(plan_of_two_parts(), decision_without_us(), 0);
    const auto next = deferred.hand_in({24, 48}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->input.weight_max(), 24u);
    EXPECT_EQ(next->sum, std::vector<float>(8, 10.0f));
    EXPECT_EQ(deferred.samples_expired(), 24.0);
    // The fresh ones are deferred as ever, and fit beside fewer.
    deferred.committed(plan_of_two_parts(), decision_without_us(), 0);
    EXPECT_EQ(deferred.hand_in({48, 64}, std::vector<float>(8, 1.0f))->input.weight_max(), 40u);
}

// A liar that votes alone signs any plan; the computing of the step finds that it fits no model.
TEST(DeferredGradients, a_plan_of_another_vector_reads_nothing_beyond_ours) {
    DeferredGradients deferred(8, {}, 8, 1000);
    (void)deferred.hand_in({0, 16}, std::vector<float>(8, 1.0f));
    consensus::RoundPlan plan = plan_of_two_parts();
    plan.parts = {{4, 4, 0}, {8, std::uint64_t{1} << 60, 0}};
    deferred.committed(plan, decision_without_us(), 0);
    const auto next = deferred.hand_in({16, 32}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->sum, std::vector<float>(8, 11.0f));
}

// Everybody would refuse them, in this round and in all to come.
TEST(DeferredGradients, samples_among_which_too_many_were_left_out_expire) {
    DeferredGradients deferred(8, {}, 8, 40);
    const auto kept = deferred.hand_in({0, 64, 40}, std::vector<float>(8, 1.0f));
    EXPECT_TRUE(consensus::check_input(kept->input, 8, 40));
    EXPECT_EQ(kept->input.weight_max(), 24u);
    deferred.forget();
    const double before = deferred.samples_expired();
    const auto refused = deferred.hand_in({64, 129, 41}, std::vector<float>(8, 1.0f));
    EXPECT_TRUE(refused->input.is_empty());
    EXPECT_TRUE(consensus::check_input(refused->input, 8, 40));
    EXPECT_EQ(deferred.samples_expired() - before, 24.0);
    deferred.committed(plan_of_two_parts(), decision_without_us(), std::nullopt);
    EXPECT_FALSE(deferred.has_deferred());
    deferred.hand_in_late({129, 194, 41}, std::vector<float>(8, 1.0f));
    EXPECT_FALSE(deferred.has_deferred());
}

// Fragments of four elements: what a step leaves out waits for the next one that moves the same.
TEST(DeferredGradients, what_a_fragment_left_out_waits_for_its_next_turn) {
    DeferredGradients deferred(8, {}, 8, 1000);
    const std::vector<consensus::ElementRange> fragments = {{0, 4}, {4, 4}};
    const auto commit = [&](std::size_t fragment, bool with_us) {
        consensus::RoundPlan plan;
        plan.members.resize(1);
        plan.whole_count = 8;
        plan.parts = {{fragments[fragment].offset, 4, 0}};
        consensus::Decision decision;
        decision.parts.resize(1);
        decision.parts[0].included = {static_cast<std::uint8_t>(with_us ? 1 : 0)};
        deferred.committed(plan, decision, 0);
    };
    (void)deferred.hand_in({0, 16}, {1, 1, 1, 1, 0, 0, 0, 0}, fragments[0]);
    commit(0, /*with_us=*/false);
    const auto other = deferred.hand_in({0, 32}, {0, 0, 0, 0, 2, 2, 2, 2}, fragments[1]);
    EXPECT_EQ(other->input.carried.size(), 0u);
    EXPECT_EQ(other->sum, (std::vector<float>{0, 0, 0, 0, 2, 2, 2, 2}));
    EXPECT_EQ(deferred.fresh_handed_in(), 16u) << "half of the vector";
    commit(1, /*with_us=*/true);
    EXPECT_EQ(deferred.samples_expired(), 0);
    const auto next = deferred.hand_in({16, 48}, {10, 10, 10, 10, 0, 0, 0, 0}, fragments[0]);
    EXPECT_EQ(next->sum, (std::vector<float>{11, 11, 11, 11, 0, 0, 0, 0}));
    EXPECT_EQ(next->input.carried, (consensus::CounterRange{0, 16}));
    EXPECT_EQ(next->input.carried_ranges, (std::vector<consensus::ElementRange>{{0, 4}}));
    commit(0, /*with_us=*/false);
    EXPECT_EQ(deferred.samples_expired(), 16 * 4 / 8.0) << "left out twice";
    deferred.hand_in_late({32, 48}, {0, 0, 0, 0, 3, 3, 3, 3}, fragments[1]);
    EXPECT_EQ(deferred.hand_in({48, 64}, {0, 0, 0, 0, 4, 4, 4, 4}, fragments[1])->sum,
              (std::vector<float>{0, 0, 0, 0, 7, 7, 7, 7}));
}

}  // namespace
}  // namespace dedloc::replica
