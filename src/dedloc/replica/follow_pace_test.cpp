#include "dedloc/replica/follow_pace.h"

#include <gtest/gtest.h>

namespace dedloc::replica {
namespace {

constexpr TimePoint pace_begins{1000s};
constexpr double one_average = 400'000;  // bytes

// A run that makes a step a second, and a line that brings so many bytes a second; what was told.
std::vector<FollowPace::TooSlow> told_within(Duration duration,
                                             double line_bytes,
                                             std::uint64_t behind) {
    FollowPace pace;
    std::vector<FollowPace::TooSlow> told;
    for (std::uint64_t second = 0; second < static_cast<std::uint64_t>(to_seconds(duration));
         ++second) {
        const auto received = static_cast<std::uint64_t>(line_bytes * static_cast<double>(second));
        const std::uint64_t newest = 100 + second;
        if (const auto slow = pace.observe(
                newest - behind, newest, received, one_average, pace_begins + 1s * second))
            told.push_back(*slow);
    }
    return told;
}

TEST(FollowPace, a_line_of_a_tenth_of_a_megabit_is_told_which_rate_it_needs) {
    const auto told = told_within(2min, 12'500, 40);
    ASSERT_EQ(told.size(), 1u) << "and not again and again";
    EXPECT_NEAR(told[0].needed_bytes_per_s, one_average, one_average * 0.02);
    EXPECT_NEAR(told[0].came_bytes_per_s, 12'500, 300);
    EXPECT_NEAR(told[0].step_s, 1, 0.02);
    EXPECT_FALSE(told[0].hopeless);
}

TEST(FollowPace, is_hopeless_after_ten_minutes) {
    const auto told = told_within(11min, 12'500, 40);
    ASSERT_FALSE(told.empty());
    EXPECT_TRUE(told.back().hopeless);
}

TEST(FollowPace, one_that_loads_a_large_state_fast_enough_is_not_too_slow) {
    EXPECT_TRUE(told_within(30min, 2 * one_average, 90).empty());
}

TEST(FollowPace, one_that_stands_with_the_others_is_not_too_slow) {
    EXPECT_TRUE(told_within(30min, 1000, 1).empty());
}

}  // namespace
}  // namespace dedloc::replica
