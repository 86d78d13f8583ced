#include "dedloc/planner/plan.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/planner/explanation.h"

namespace dedloc::planner {
namespace {

PlanPeer peer(std::string name, double megabits_up, double megabits_down) {
    return {.name = std::move(name),
            .rates = {.upload_per_s = megabits_up * 1e6 / 16,
                      .download_per_s = megabits_down * 1e6 / 16}};
}

bool mentions(const Plan& plan, std::string_view words) {
    return std::any_of(plan.sentences.begin(), plan.sentences.end(), [&](const auto& sentence) {
        return sentence.find(words) != std::string::npos;
    });
}

std::string all(const Plan& plan) {
    std::string text;
    for (const std::string& sentence : plan.sentences) text += sentence + "\n";
    return text;
}

TEST(Plan, says_what_equal_parts_and_a_server_would_take) {
    PlanQuestion question{.elements_count = 25'557'032};
    for (int i = 1; i <= 8; ++i)
        question.peers.push_back(peer(fmt::format("fast-{}", i), 1000, 1000));
    for (int i = 1; i <= 16; ++i)
        question.peers.push_back(peer(fmt::format("slow-{}", i), 200, 200));
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_NEAR(plan->split.seconds, 2.04, 0.01);
    EXPECT_NEAR(plan->seconds_equal, 3.92, 0.01);
    EXPECT_NEAR(plan->seconds_server, 9.40, 0.01);
    EXPECT_TRUE(mentions(*plan, "8 of 24 peers reduce 12.5 % each: fast-1 and 7 others"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "slow-1 and 15 others own nothing, their own gradient"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "Equal parts would take 3.92 s (1.92 times as long), one server"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "An aggregator would not help.")) << all(*plan);
}

TEST(Plan, says_what_aggregators_are_good_for) {
    PlanQuestion question{.elements_count = 25'557'032};
    for (int i = 1; i <= 8; ++i) question.peers.push_back(peer(fmt::format("home-{}", i), 20, 100));
    const auto without = make_plan(question);
    ASSERT_TRUE(without);
    EXPECT_FALSE(without->seconds_without);
    EXPECT_TRUE(mentions(*without, "An aggregator with ")) << all(*without);
    question.peers.push_back(peer("aux", 1000, 1000));
    question.peers.back().rates.contributes = question.peers.back().rates.receives = false;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_NEAR(plan->split.seconds, 20.45, 0.01);
    ASSERT_TRUE(plan->seconds_without);
    EXPECT_NEAR(*plan->seconds_without, 35.78, 0.01);
    EXPECT_TRUE(mentions(*plan, "aux reduces the whole vector")) << all(*plan);
    EXPECT_TRUE(mentions(*plan, "Without aggregators it would take 35.8 s.")) << all(*plan);
    EXPECT_TRUE(mentions(*plan, "A further aggregator would not help.")) << all(*plan);
}

TEST(Plan, names_whom_to_spare_from_computing) {
    PlanQuestion question{.elements_count = 25'557'032, .batch_samples = 240};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 100, 100));
    question.peers.push_back(peer("modem", 1, 100));
    for (PlanPeer& one : question.peers) one.samples_per_s = 10;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->peers[3].contributes);
    EXPECT_TRUE(plan->peers[3].receives);
    EXPECT_TRUE(mentions(*plan, "modem should not compute: sending its gradient")) << all(*plan);
    question.batch_samples = 1e6;
    EXPECT_TRUE(mentions(*make_plan(question), "Every trainer should compute.")) << all(*plan);
}

TEST(Plan, unreachable_pairs_are_named) {
    PlanQuestion question{.elements_count = 1'000'000};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 100, 100));
    question.links = {{0, 1, 0}, {1, 0, 0}};
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->split.part_elements, (std::vector<std::uint64_t>{0, 0, 1'000'000}));
    EXPECT_TRUE(mentions(*plan,
                         "c reduces the whole vector; a and b own nothing, they cannot reach "
                         "everybody"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "Equal parts would be impossible")) << all(*plan);
    question.links.push_back({1, 2, 0});
    const auto impossible = make_plan(question);
    ASSERT_FALSE(impossible);
    EXPECT_NE(impossible.error().message().find("a cannot reach b"), std::string::npos)
        << impossible.error().message();
}

TEST(Plan, a_slow_link_between_two_owners_is_the_bottleneck_that_is_named) {
    PlanQuestion question{.elements_count = 1'000'000};
    for (const char* name : {"a", "b"}) question.peers.push_back(peer(name, 100, 100));
    question.links = {{0, 1, 1000}};
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    // Whoever owns, a sends b its gradient or the average: 1,000 elements a second.
    EXPECT_NEAR(plan->split.seconds, 1000, 1e-3);
    EXPECT_EQ(plan->split.bottleneck, Bottleneck::link);
    EXPECT_TRUE(mentions(*plan, "the link from a to b sets the time of 16.7 min")) << all(*plan);
}

TEST(Plan, times_and_rates_are_written_with_three_digits) {
    EXPECT_EQ(duration_text(0.7156), "0.72 s");
    EXPECT_EQ(duration_text(0.0123), "12.3 ms");
    EXPECT_EQ(duration_text(20.446), "20.4 s");
    EXPECT_EQ(duration_text(600), "10.0 min");
    EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "forever");
    EXPECT_EQ(rate_text(2.5e9), "2.5 Gb/s");
    EXPECT_EQ(rate_text(2e8), "200 Mb/s");
    EXPECT_EQ(rate_text(56e3), "56 kb/s");
}

}  // namespace
}  // namespace dedloc::planner
