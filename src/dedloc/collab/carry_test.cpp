#include "dedloc/collab/carry.h"

#include <gtest/gtest.h>

namespace dedloc::collab {
namespace {

consensus::Plan plan_of_two_parts() {
    consensus::Plan plan;
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
TEST(Carry, gradients_that_came_late_are_in_the_next_step_and_changes_of_buffers_are_not) {
    Carry carry(8, {}, 6, 1000);
    (void)carry.hand_in({0, 16}, std::vector<float>(8, 1.0f));
    carry.committed(plan_of_two_parts(), decision_without_us(), 0);
    EXPECT_TRUE(carry.has_carried());
    const auto next = carry.hand_in({16, 32}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->sum, (std::vector<float>{11, 11, 11, 11, 11, 11, 10, 10}));
    EXPECT_EQ(next->input.carried_ranges, (std::vector<consensus::ElementRange>{{0, 6}}));
    EXPECT_EQ(carry.samples_expired(), 16 * 2.0 / 8);
}

TEST(Carry, where_only_buffers_came_late_nothing_is_carried) {
    Carry carry(8, {}, 4, 1000);
    (void)carry.hand_in({0, 16}, std::vector<float>(8, 1.0f));
    consensus::Decision decision = decision_without_us();
    decision.parts[0].included = {1};
    carry.committed(plan_of_two_parts(), decision, 0);
    EXPECT_FALSE(carry.has_carried());
    EXPECT_EQ(carry.hand_in({16, 32}, std::vector<float>(8, 10.0f))->input.carried.size(), 0u);
}

TEST(Carry, of_sums_that_are_a_step_old_gradients_go_on) {
    Carry carry(8, {}, 6, 1000);
    carry.hand_in_late({0, 16}, std::vector<float>(8, 1.0f));
    const auto next = carry.hand_in({16, 32}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->sum, (std::vector<float>{11, 11, 11, 11, 11, 11, 10, 10}));
}

TEST(Carry, more_samples_than_a_round_takes_are_not_handed_in_together) {
    Carry carry(8, {}, 8, 40);
    (void)carry.hand_in({0, 24}, std::vector<float>(8, 1.0f));
    carry.committed(plan_of_two_parts(), decision_without_us(), 0);
    const auto next = carry.hand_in({24, 48}, std::vector<float>(8, 10.0f));
    EXPECT_EQ(next->input.weight_max(), 24u);
    EXPECT_EQ(next->sum, std::vector<float>(8, 10.0f));
    EXPECT_EQ(carry.samples_expired(), 24.0);
    // The fresh ones are carried as ever, and fit beside fewer.
    carry.committed(plan_of_two_parts(), decision_without_us(), 0);
    EXPECT_EQ(carry.hand_in({48, 64}, std::vector<float>(8, 1.0f))->input.weight_max(), 40u);
}

}  // namespace
}  // namespace dedloc::collab
