#include "dedloc/averaging/rates.h"

#include <gtest/gtest.h>

namespace dedloc::averaging {
namespace {

TEST(LineRate, is_what_arrived_everywhere_over_the_time_it_took) {
    EXPECT_DOUBLE_EQ(line_rate({{1'000'000, 2.0}, {1'000'000, 2.0}}), 1'000'000);
}

TEST(LineRate, is_not_that_of_the_slowest_receiver) {
    EXPECT_DOUBLE_EQ(line_rate({{1'000'000, 1.0}, {1'000'000, 1.0}, {1'000'000, 50.0}}), 2'000'000);
}

TEST(LineRate, of_flows_that_end_one_after_the_other_is_not_their_sum) {
    // Two flows share a line of 1 MB/s; the short one ends first.
    EXPECT_DOUBLE_EQ(line_rate({{500'000, 1.0}, {1'500'000, 2.0}}), 1'000'000);
}

TEST(LineRate, of_a_few_bytes_is_unknown) {
    EXPECT_EQ(line_rate({}), 0);
    EXPECT_EQ(line_rate({{1000, 0.5}, {1000, 0.5}}), 0);
}

TEST(LineRate, of_a_flow_too_short_to_time_is_what_it_is_at_least) {
    EXPECT_DOUBLE_EQ(line_rate({{1'000'000, 0.0}}), 50'000'000);
    EXPECT_DOUBLE_EQ(line_rate({{1'000'000, 0.003}}), 50'000'000);
}

TEST(RateEstimate, has_seen_three_quarters_of_a_change_after_two_rounds) {
    RateEstimate estimate;
    estimate.observe(0);
    EXPECT_EQ(estimate.bytes_per_s(), 0);
    estimate.observe(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
    estimate.observe(20);
    estimate.observe(20);
    EXPECT_EQ(estimate.bytes_per_s(), 40);
}

}  // namespace
}  // namespace dedloc::averaging
