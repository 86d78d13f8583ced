#include "dedloc/averaging/part_cuts.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace dedloc::averaging {
namespace {

constexpr double a_moment = 0.1;
constexpr double long_enough = 60;

std::vector<std::uint64_t> lengths(const Plan& plan) {
    std::vector<std::uint64_t> all;
    for (const PlanPart& part : plan.parts) all.push_back(part.count);
    return all;
}

TEST(PartCuts, are_equal_where_a_part_takes_no_time) {
    Plan plan;
    cut_range(plan, 4000, cuts_for(40, a_moment), {0});
    EXPECT_EQ(lengths(plan), std::vector<std::uint64_t>(40, 100));
}

TEST(PartCuts, make_the_first_and_the_last_parts_short_where_parts_take_long) {
    Plan plan;
    cut_range(plan, 1600, cuts_for(16, long_enough), {0});
    EXPECT_EQ(lengths(plan),
              (std::vector<std::uint64_t>{25,  25,  50,  50,  100, 100, 100, 100, 100, 100, 100,
                                          100, 100, 100, 100, 100, 100, 50,  50,  25,  25}));
}

TEST(PartCuts, leave_few_parts_as_they_are) {
    Plan plan;
    cut_range(plan, 1500, cuts_for(15, long_enough), {0});
    EXPECT_EQ(lengths(plan), std::vector<std::uint64_t>(15, 100));
}

TEST(PartCuts, cover_ranges_without_gap_or_crumb_and_owners_take_turns) {
    for (const std::uint64_t range : {4801u, 6007u, 99'991u}) {
        Plan plan;
        cut_range(plan, 10, cuts_for(1, a_moment), {7});
        cut_range(plan, range, cuts_for(48, long_enough), {4, 2});
        ASSERT_EQ(plan.parts.size(), 1u + 2 * 53) << range;
        std::uint64_t position = 0;
        for (std::size_t i = 0; i < plan.parts.size(); ++i) {
            EXPECT_EQ(plan.parts[i].offset, position);
            EXPECT_LE(plan.parts[i].count, range / (2 * 48) + 1);
            EXPECT_GE(plan.parts[i].count, std::min<std::uint64_t>(10, range / (2 * 48) / 4));
            EXPECT_EQ(plan.parts[i].owner, i == 0 ? 7u : i % 2 == 1 ? 4u : 2u);
            position += plan.parts[i].count;
        }
        EXPECT_EQ(position, 10 + range);
    }
}

TEST(PartCuts, of_nothing_are_none) {
    Plan plan;
    cut_range(plan, 0, cuts_for(0, long_enough), {0});
    EXPECT_TRUE(plan.parts.empty());
}

}  // namespace
}  // namespace dedloc::averaging
