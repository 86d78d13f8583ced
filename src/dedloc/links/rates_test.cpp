#include "dedloc/links/rates.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace dedloc::links {
namespace {

TEST(LineRate, is_what_arrived_everywhere_over_the_time_it_took) {
    EXPECT_DOUBLE_EQ(link_rate({{1'000'000, 2.0}, {1'000'000, 2.0}}), 1'000'000);
}

TEST(LineRate, is_not_that_of_the_slowest_receiver) {
    EXPECT_DOUBLE_EQ(link_rate({{1'000'000, 1.0}, {1'000'000, 1.0}, {1'000'000, 50.0}}), 2'000'000);
}

TEST(LineRate, of_flows_that_end_one_after_the_other_is_not_their_sum) {
    // Two flows share a link of 1 MB/s; the short one ends first.
    EXPECT_DOUBLE_EQ(link_rate({{500'000, 1.0}, {1'500'000, 2.0}}), 1'000'000);
}

TEST(LineRate, of_a_few_bytes_is_unknown) {
    EXPECT_EQ(link_rate({}), 0);
    EXPECT_EQ(link_rate({{1000, 0.5}, {1000, 0.5}}), 0);
}

TEST(LineRate, of_a_flow_too_short_to_time_is_what_it_is_at_least) {
    EXPECT_DOUBLE_EQ(link_rate({{1'000'000, 0.0}}), 50'000'000);
    EXPECT_DOUBLE_EQ(link_rate({{1'000'000, 0.003}}), 50'000'000);
}

TEST(LinkEstimate, is_the_mean_of_what_rounds_show_while_it_differs_little) {
    LinkEstimate estimate;
    estimate.round_gave(0);
    EXPECT_EQ(estimate.bytes_per_s(), 0);
    EXPECT_TRUE(estimate.wants_probe());
    estimate.round_gave(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
    estimate.round_gave(80);
    EXPECT_EQ(estimate.bytes_per_s(), 90);
}

// Without a moment for a probe, and with one.
TEST(LinkEstimate, knows_a_link_that_became_five_times_slower_after_two_rounds) {
    LinkEstimate never_idle;
    never_idle.probe_gave(100);
    for (int i = 0; i < 5; ++i) never_idle.round_gave(95);
    never_idle.round_gave(20);
    EXPECT_TRUE(never_idle.wants_probe());
    never_idle.round_gave(20);
    EXPECT_EQ(never_idle.bytes_per_s(), 20);
    EXPECT_TRUE(never_idle.wants_probe()) << "it may have been another's fault";

    LinkEstimate idle;
    idle.probe_gave(100);
    idle.probe_gave(100);
    for (int i = 0; i < 5; ++i) idle.round_gave(95);
    idle.round_gave(20);
    EXPECT_TRUE(idle.wants_probe());
    idle.probe_gave(21);
    EXPECT_EQ(idle.bytes_per_s(), 21);
    EXPECT_FALSE(idle.wants_probe());
}

TEST(LinkEstimate, knows_a_link_that_became_five_times_faster_after_two_rounds) {
    LinkEstimate estimate;
    estimate.probe_gave(20);
    for (int i = 0; i < 5; ++i) estimate.round_gave(19);
    estimate.round_gave(60);  // what a plan made for 20 gives it to do
    EXPECT_EQ(estimate.bytes_per_s(), 60);
    EXPECT_TRUE(estimate.wants_probe());
    estimate.round_gave(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
}

TEST(LinkEstimate, looks_again_when_the_user_grants_more) {
    LinkEstimate estimate;
    estimate.probe_gave(20);
    estimate.round_gave(19);
    estimate.probe_gave(20);
    EXPECT_FALSE(estimate.wants_probe());
    estimate.ask_again();
    EXPECT_TRUE(estimate.wants_probe());
    estimate.probe_gave(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
    EXPECT_FALSE(estimate.wants_probe());
}

TEST(LinkEstimate, believes_a_probe_rather_than_a_round_in_which_all_waited_for_another) {
    LinkEstimate estimate;
    estimate.probe_gave(100);
    estimate.probe_gave(100);
    for (int i = 0; i < 3; ++i) estimate.round_gave(95);
    estimate.round_gave(20);
    estimate.probe_gave(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
    EXPECT_FALSE(estimate.wants_probe());
}

TEST(LinkEstimate, believes_a_probe_while_rounds_do_not_fill_the_link) {
    LinkEstimate estimate;
    EXPECT_TRUE(estimate.wants_probe());
    estimate.probe_gave(100);
    EXPECT_FALSE(estimate.wants_probe()) << "before a round";
    estimate.round_gave(40);
    EXPECT_TRUE(estimate.wants_probe());
    estimate.probe_gave(80);
    EXPECT_FALSE(estimate.wants_probe());
    for (int i = 0; i < 7; ++i) estimate.round_gave(40);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
    EXPECT_FALSE(estimate.wants_probe());
    estimate.round_gave(40);
    EXPECT_TRUE(estimate.wants_probe());
}

TEST(LinkEstimate, believes_rounds_that_show_nearly_what_a_probe_has_shown) {
    LinkEstimate estimate;
    estimate.probe_gave(100);
    estimate.probe_gave(110);
    for (int i = 0; i < 3; ++i) estimate.round_gave(100);
    EXPECT_EQ(estimate.bytes_per_s(), 100);
}

TEST(LinkEstimate, of_who_waited_for_others_in_a_round_that_took_as_long_as_planned_stays) {
    LinkEstimate link;
    link.round_gave(2e6);
    for (int i = 0; i < 10; ++i) link.round_as_planned_gave(1e5);
    EXPECT_EQ(link.bytes_per_s(), 2e6);
    link.round_as_planned_gave(4e6);  // that it carries
    EXPECT_EQ(link.bytes_per_s(), 4e6);
    for (int i = 0; i < 2; ++i) link.round_gave(1e5);  // it is what all waited for
    EXPECT_EQ(link.bytes_per_s(), 1e5);
}

TEST(TakeAsAlike, lines_within_a_tenth_count_as_the_slowest_of_them_and_others_stay_apart) {
    std::vector<double> rates = {1040, 97, 108, 100, 0, 1000, 106.6, 200};
    std::vector<double*> where;
    for (double& rate : rates) where.push_back(&rate);
    take_as_alike(where);
    EXPECT_EQ(rates, (std::vector<double>{1000, 97, 108, 97, 0, 1000, 97, 200}));
}

TEST(LinkEstimate, asks_for_probes_less_and_less_often_while_they_are_confirmed) {
    LinkEstimate estimate;
    int probes = 0;
    for (int round = 0; round < 1000; ++round) {
        if (estimate.wants_probe()) {
            estimate.probe_gave(100);
            ++probes;
        }
        estimate.round_gave(40);
        EXPECT_GE(estimate.bytes_per_s(), 80);
    }
    EXPECT_LE(probes, 20);
}

TEST(LinkEstimate, without_probes_goes_back_to_what_rounds_show) {
    LinkEstimate estimate;
    estimate.probe_gave(100);
    for (int i = 0; i < 30; ++i) estimate.round_gave(40);
    EXPECT_EQ(estimate.bytes_per_s(), 40);
}

// The claim of one who takes what it is given: as much as was claimed, as fast as the link
// carries it.
double claim_after(GrowingRate& rate, double link, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const double given = rate.bytes_per_s() > 0 ? rate.bytes_per_s() : 1e6;
        rate.observe(std::min(given, link), static_cast<std::uint64_t>(given));
    }
    return rate.bytes_per_s();
}

TEST(GrowingRate, finds_a_link_that_is_a_hundred_times_faster_than_the_first_guess) {
    GrowingRate rate;
    EXPECT_EQ(rate.bytes_per_s(), 0);
    EXPECT_NEAR(claim_after(rate, 1e8, 10), 1.1e8, 1);
}

TEST(GrowingRate, claims_a_tenth_more_than_came_once_the_link_is_full) {
    GrowingRate rate;
    (void)claim_after(rate, 1e8, 20);
    for (int i = 0; i < 20; ++i) EXPECT_LE(claim_after(rate, 1e8, 1), 1.1e8 + 1);
    EXPECT_NEAR(rate.least(), 1.1e8, 1);
}

TEST(GrowingRate, believes_a_slower_link_after_two_rounds) {
    GrowingRate rate;
    (void)claim_after(rate, 1e8, 20);
    EXPECT_NEAR(claim_after(rate, 1e7, 1), 1.1e8, 1);
    EXPECT_NEAR(claim_after(rate, 1e7, 1), 1.1e7, 1);
}

TEST(GrowingRate, believes_plans_that_give_it_little_only_after_eight_rounds) {
    GrowingRate rate;
    (void)claim_after(rate, 1e8, 20);
    for (int i = 0; i < 7; ++i) rate.observe(1e6, 1'000'000);
    EXPECT_NEAR(rate.bytes_per_s(), 1.1e8, 1);
    rate.observe(1e6, 1'000'000);
    EXPECT_NEAR(rate.bytes_per_s(), 1.1e6, 1);
}

TimePoint at(double seconds) { return TimePoint{} + from_seconds(seconds); }

TEST(Throughput, is_that_of_the_busier_half) {
    Throughput link;
    for (int i = 0; i <= 50; ++i) link.add(200'000, at(0.1 * i));
    for (int i = 51; i <= 100; ++i) link.add(20'000, at(0.1 * i));
    EXPECT_NEAR(link.bytes_per_s(), 2e6, 2e5);
}

TEST(Throughput, of_a_link_that_is_idle_for_most_of_a_round_is_that_of_its_busiest_quarter) {
    Throughput link(0.25);
    for (int i = 0; i <= 100; ++i) link.add(i > 40 && i <= 65 ? 200'000 : 0, at(0.1 * i));
    EXPECT_NEAR(link.bytes_per_s(), 2e6, 2e5);
}

TEST(Throughput, of_a_moment_or_of_little_is_unknown) {
    Throughput link;
    link.add(10'000'000, at(0));
    link.add(10'000'000, at(0.2));
    EXPECT_EQ(link.bytes_per_s(), 0);
    Throughput little;
    for (int i = 0; i < 10; ++i) little.add(1000, at(i));
    EXPECT_EQ(little.bytes_per_s(), 0);
}

TEST(Throughput, remembers_little_of_many_messages) {
    Throughput link;
    for (int i = 0; i < 200'000; ++i) link.add(100, at(0.001 * i));
    EXPECT_NEAR(link.bytes_per_s(), 1e5, 2e3);
}

}  // namespace
}  // namespace dedloc::links
