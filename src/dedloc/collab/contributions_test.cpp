#include "dedloc/collab/contributions.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::collab {
namespace {

constexpr std::uint64_t small_vector = 4;
constexpr TimePoint handed_in_then{100s};

class ContributionsTest : public testing::Test {
  protected:
    // A step that counts on what we handed in, and includes it or does not.
    void commit(bool included, std::uint64_t step = 7) {
        consensus::RoundPlan plan;
        plan.members.resize(2);
        plan.members[1].peer = us;
        plan.members[1].input = *contributions.handed_in();
        plan.parts.push_back({.offset = 0, .count = small_vector});
        consensus::Decision decision;
        decision.instance.step = step;
        decision.parts.resize(1);
        decision.parts[0].included = {static_cast<std::uint8_t>(included ? 2 : 0)};
        const auto mine = contributions.place_in(plan, us);
        ASSERT_EQ(mine, 1u);
        contributions.committed(plan, decision, mine);
    }

    const PeerId us = security::toy_peer_id(1);
    Contributions contributions{replica::DeferredGradients(small_vector, {}, small_vector, 1000)};
};

TEST_F(ContributionsTest, what_is_computed_ahead_becomes_the_next_steps) {
    EXPECT_TRUE(contributions.add(10, 5));
    contributions.compute_ahead();
    EXPECT_FALSE(contributions.add(20, 30));
    EXPECT_EQ(contributions.samples(), 10u);
    EXPECT_EQ(contributions.samples_ahead(), 20u);
    contributions.begin_step(/*keep_ahead=*/true);
    EXPECT_EQ(contributions.samples(), 20u);
    EXPECT_EQ(contributions.samples_ahead(), 0u);
    EXPECT_DOUBLE_EQ(contributions.loss(), 1.5);
    EXPECT_TRUE(contributions.add(1, 1));
}

TEST_F(ContributionsTest,
       what_was_computed_ahead_in_vain_counts_for_nothing_until_it_is_forgotten) {
    contributions.compute_ahead();
    contributions.add(20, 30);
    contributions.begin_step(/*keep_ahead=*/false);
    EXPECT_FALSE(contributions.add(5, 5));  // the trainer has not heard of it yet
    EXPECT_EQ(contributions.samples(), 0u);
    contributions.forget_ahead(25);
    EXPECT_EQ(contributions.take_forgotten(), 25u);
    EXPECT_EQ(contributions.take_forgotten(), 0u);
    EXPECT_TRUE(contributions.add(5, 5));
}

TEST_F(ContributionsTest, what_a_certificate_includes_is_counted_with_its_loss) {
    contributions.hand_in({0, 10}, std::vector<float>(small_vector, 1.0f), 5, handed_in_then);
    EXPECT_EQ(contributions.fresh_handed_in_at(), handed_in_then);
    commit(/*included=*/true);
    EXPECT_FALSE(contributions.handed_in());
    EXPECT_EQ(contributions.committed_samples(), 10u);
    consensus::Instance step;
    step.step = 7;
    EXPECT_EQ(contributions.loss_in(step), 0.5);
    step.step = 8;
    EXPECT_FALSE(contributions.loss_in(step));
}

TEST_F(ContributionsTest, what_it_does_not_include_goes_into_the_next_round) {
    contributions.hand_in({0, 10}, std::vector<float>(small_vector, 1.0f), 5, handed_in_then);
    commit(/*included=*/false);
    EXPECT_EQ(contributions.committed_samples(), 0u);
    const auto input =
        contributions.hand_in({10, 20}, std::vector<float>(small_vector, 2.0f), 5, handed_in_then);
    EXPECT_EQ(input->input.carried.size(), 10u);
    EXPECT_EQ(input->sum, std::vector<float>(small_vector, 3.0f));
}

TEST_F(ContributionsTest, what_is_refused_is_not_handed_in_again) {
    contributions.hand_in({0, 10}, std::vector<float>(small_vector, 1.0f), 5, handed_in_then);
    EXPECT_EQ(contributions.forget_refused(), 10u);
    const auto input =
        contributions.hand_in({10, 20}, std::vector<float>(small_vector, 2.0f), 5, handed_in_then);
    EXPECT_EQ(input->input.carried.size(), 0u);
}

}  // namespace
}  // namespace dedloc::collab
