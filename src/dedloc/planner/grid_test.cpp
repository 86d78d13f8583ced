#include "dedloc/planner/grid.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

#include "dedloc/base/random.h"
#include "dedloc/planner/planner_testing.h"

namespace dedloc::planner {
namespace {

GridOptions groups_of(std::size_t group_max) {
    GridOptions options;
    options.group_max = group_max;
    options.sums_cost = 2;
    return options;
}

void expect_sound(const Grid& grid, std::size_t peers_count, std::uint64_t elements) {
    EXPECT_EQ(
        std::accumulate(grid.part_elements.begin(), grid.part_elements.end(), std::uint64_t{0}),
        elements);
    ASSERT_EQ(grid.group_of.size(), peers_count);
    std::vector<std::size_t> sizes(grid.groups, 0);
    for (const std::uint32_t group : grid.group_of) ++sizes.at(group);
    EXPECT_LE(*std::ranges::max_element(sizes) - *std::ranges::min_element(sizes), 1u);
    EXPECT_EQ(grid.collectors.size() % grid.groups, 0u);
    for (std::size_t i = 0; i < grid.collectors.size(); ++i)
        EXPECT_EQ(grid.group_of[grid.collectors[i]], i % grid.groups);
    EXPECT_EQ(std::set(grid.collectors.begin(), grid.collectors.end()).size(),
              grid.collectors.size());
}

TEST(Grid, of_equal_peers_costs_little_more_than_one_group_of_all) {
    const std::vector<PeerRates> peers(256, megabits(100, 100));
    const double flat = split_elements(peers, resnet_elements)->seconds;
    for (const std::size_t group_max : {16u, 64u, 128u}) {
        const auto grid = make_grid(peers, resnet_elements, groups_of(group_max));
        ASSERT_TRUE(grid);
        expect_sound(*grid, peers.size(), resnet_elements);
        EXPECT_EQ(grid->groups, 256 / group_max);
        // Sums are twice as long as what is encoded, and one range in group_max is theirs.
        EXPECT_GT(grid->seconds, flat);
        EXPECT_LT(grid->seconds, flat * (1 + 1.1 / static_cast<double>(group_max)));
    }
}

TEST(Grid, what_is_sent_is_received) {
    Random random(5);
    for (int turn = 0; turn < 50; ++turn) {
        std::vector<PeerRates> peers;
        for (std::size_t i = 0; i < 20 + random.below(60); ++i) {
            peers.push_back(megabits(random.uniform(5, 200), random.uniform(5, 200)));
            peers.back().contributes = !random.chance(0.2);
            peers.back().receives = !random.chance(0.1);
            peers.back().owns_allowed = !random.chance(0.3);
        }
        peers[0].contributes = true;
        const auto grid = make_grid(peers, 1'000'003, groups_of(8));
        ASSERT_TRUE(grid) << grid.error().message();
        expect_sound(*grid, peers.size(), 1'000'003);
        double sent = 0;
        double received = 0;
        for (const Traffic& each : traffic(peers, *grid, 2)) {
            sent += each.sent_elements;
            received += each.received_elements;
        }
        EXPECT_NEAR(sent, received, sent * 1e-12);
        for (std::size_t i = 0; i < peers.size(); ++i)
            EXPECT_TRUE(peers[i].owns_allowed || grid->part_elements[i] == 0) << i;
    }
}

TEST(Grid, slow_peers_own_nothing_and_columns_are_of_equals) {
    std::vector<PeerRates> peers(48, megabits(1000, 1000));
    for (std::size_t i = 0; i < peers.size(); i += 4) peers[i] = megabits(100, 100);
    const auto grid = make_grid(peers, resnet_elements, groups_of(16));
    ASSERT_TRUE(grid);
    for (std::size_t i = 0; i < peers.size(); ++i)
        EXPECT_EQ(grid->part_elements[i] > 0, i % 4 != 0) << i;
}

TEST(Grid, groups_that_nobody_can_own_for_are_refused) {
    std::vector<PeerRates> peers(20, megabits(100, 100));
    for (std::size_t i = 1; i < peers.size(); ++i) peers[i].owns_allowed = false;
    const auto grid = make_grid(peers, 1000, groups_of(5));
    ASSERT_FALSE(grid);
    EXPECT_EQ(grid.error().kind(), ErrorKind::bad_input);
}

}  // namespace
}  // namespace dedloc::planner
