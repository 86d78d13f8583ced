#include "experiments/group_averaging.h"

#include <gtest/gtest.h>

namespace dedloc::lab {
namespace {

constexpr int seeds = 10;

RoundsNeeded rounds(GroupStrategy strategy, std::size_t peers, double absence) {
    return mean_rounds({.strategy = strategy, .peers = peers, .absence = absence}, seeds);
}

TEST(GroupAveraging, a_full_grid_is_exact_after_a_round_along_each_axis) {
    EXPECT_EQ(rounds(GroupStrategy::moshpit, 1024, 0).fine, 2);
    EXPECT_EQ(rounds(GroupStrategy::all_reduce, 1024, 0).fine, 1);
}

// The published means of ten seeds; below 0.8 rounds apart.
TEST(GroupAveraging, needs_the_published_number_of_rounds) {
    EXPECT_NEAR(rounds(GroupStrategy::moshpit, 512, 0).fine, 8.2, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::moshpit, 512, 0.01).fine, 8.8, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::moshpit, 768, 0).fine, 6.0, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::moshpit, 900, 0.01).fine, 6.5, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::random, 512, 0.01).fine, 6.6, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::random, 900, 0).fine, 6.4, 0.8);
    EXPECT_NEAR(rounds(GroupStrategy::sgp, 512, 0).coarse, 15.6, 1.6);
}

TEST(GroupAveraging, one_absent_peer_stops_an_all_reduce_of_all_but_not_groups) {
    EXPECT_GT(rounds(GroupStrategy::all_reduce, 900, 0.01).fine, 40);
    EXPECT_LT(rounds(GroupStrategy::moshpit, 900, 0.01).fine, 8);
    EXPECT_EQ(rounds(GroupStrategy::gossip, 512, 0).fine, 50);
}

}  // namespace
}  // namespace dedloc::lab
