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

bool mentions(const LoadPlan& plan, std::string_view words) {
    return std::any_of(plan.sentences.begin(), plan.sentences.end(), [&](const auto& sentence) {
        return sentence.find(words) != std::string::npos;
    });
}

std::string all(const LoadPlan& plan) {
    std::string text;
    for (const std::string& sentence : plan.sentences) text += sentence + "\n";
    return text;
}

TEST(LoadPlan, says_what_equal_parts_and_a_server_would_take) {
    LoadQuestion question{.elements_count = 25'557'032};
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

TEST(LoadPlan, says_what_aggregators_are_good_for) {
    LoadQuestion question{.elements_count = 25'557'032};
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

TEST(LoadPlan, names_whom_to_spare_from_computing) {
    LoadQuestion question{.elements_count = 25'557'032, .batch_samples = 240};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 100, 100));
    question.peers.push_back(peer("modem", 1, 100));
    for (PlanPeer& one : question.peers) one.samples_per_s = 10;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->peers[3].contributes);
    EXPECT_TRUE(plan->peers[3].receives);
    EXPECT_TRUE(mentions(*plan, "modem should not compute: sending its gradient")) << all(*plan);
    EXPECT_TRUE(mentions(*plan, "A run would leave modem out")) << all(*plan);
    question.links = {{0, 1, 1e6}};  // of which a run's plan knows nothing
    EXPECT_FALSE(make_plan(question)->left_out);
    question.links.clear();
    question.batch_samples = 1e6;
    EXPECT_TRUE(mentions(*make_plan(question), "Every trainer should compute.")) << all(*plan);
}

TEST(LoadPlan, a_step_takes_the_sum_unless_computing_goes_on_while_it_is_averaged) {
    LoadQuestion question{.elements_count = 25'557'032, .batch_samples = 240};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 100, 100));
    for (PlanPeer& one : question.peers) one.samples_per_s = 10;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_NEAR(1 / plan->computing->steps_per_s, 8 + plan->split.seconds, 1e-3);
    EXPECT_TRUE(mentions(*plan, "A step takes 13.5 s: computing (8.00 s), then averaging (5.45 s)"))
        << all(*plan);
    question.delayed = true;
    const auto delayed = make_plan(question);
    ASSERT_TRUE(delayed);
    EXPECT_NEAR(1 / delayed->computing->steps_per_s, 8, 1e-3);
    EXPECT_EQ(delayed->split.seconds, plan->split.seconds);
    EXPECT_TRUE(mentions(*delayed, "A step takes 8.00 s, as computing (8.00 s) goes on while"))
        << all(*delayed);
}

TEST(LoadPlan, who_computes_nothing_is_not_said_to_cost_time) {
    LoadQuestion question{.elements_count = 25'557'032, .batch_samples = 240};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 100, 100));
    for (PlanPeer& one : question.peers) one.samples_per_s = 10;
    question.peers[1].samples_per_s = 0;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(mentions(*plan, "b computes nothing (samples_per_s = 0) and sends no gradient."))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "Every other trainer should compute.")) << all(*plan);
    EXPECT_FALSE(mentions(*plan, "should not compute")) << all(*plan);
}

// Nineteen lines of 100 Mb/s and one of `slow`, both ways; computing takes 10 s with all of them.
LoadQuestion nineteen_and(double slow) {
    LoadQuestion question{.elements_count = 25'557'032, .batch_samples = 2000};
    for (int i = 1; i <= 19; ++i)
        question.peers.push_back(peer(fmt::format("home-{}", i), 100, 100));
    question.peers.push_back(peer("slow", slow, slow));
    for (PlanPeer& one : question.peers) one.samples_per_s = 10;
    return question;
}

TEST(LoadPlan, says_whom_a_run_would_leave_out_and_what_a_step_takes_then) {
    LoadQuestion question = nineteen_and(8);
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    // Not computing would not help: its download is as slow.
    EXPECT_TRUE(plan->peers[19].contributes);
    ASSERT_TRUE(plan->left_out);
    EXPECT_EQ(plan->left_out->peers, std::vector<std::size_t>{19});
    EXPECT_NEAR(plan->left_out->step_seconds_of_all, 10 + 51.11, 0.01);
    EXPECT_NEAR(plan->left_out->step_seconds, 10 * 20.0 / 19 + 7.75, 0.01);
    EXPECT_TRUE(mentions(*plan,
                         "A run would leave slow out, as its line is too slow for what it brings: "
                         "a step takes 18.3 s without it and 61.1 s with it"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan, "Every other trainer should compute.")) << all(*plan);
    question.delayed = true;
    const auto delayed = make_plan(question);
    ASSERT_TRUE(delayed && delayed->left_out);
    EXPECT_NEAR(delayed->left_out->step_seconds_of_all, 51.11, 0.01);
    EXPECT_NEAR(delayed->left_out->step_seconds, 10 * 20.0 / 19, 0.01);
}

TEST(LoadPlan, a_run_waits_for_lines_that_are_nearly_as_fast_and_for_long_steps) {
    const auto alike = make_plan(nineteen_and(60));
    ASSERT_TRUE(alike);
    EXPECT_FALSE(alike->left_out);
    EXPECT_TRUE(mentions(*alike, "Every trainer should compute.")) << all(*alike);
    LoadQuestion question = nineteen_and(8);
    question.batch_samples = 200'000;
    const auto rare = make_plan(question);
    ASSERT_TRUE(rare);
    EXPECT_FALSE(rare->left_out) << all(*rare);
}

TEST(LoadPlan, names_who_cannot_get_the_average) {
    LoadQuestion question = nineteen_and(0);
    auto plan = make_plan(question);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(plan.error().message().find("slow can download nothing"), std::string::npos)
        << plan.error().message();
    EXPECT_NE(plan.error().message().find("leave it out of the plan"), std::string::npos)
        << plan.error().message();
    question.peers[3].rates.download_per_s = 0;
    plan = make_plan(question);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message().find("home-4 and 1 other can download nothing"),
              std::string::npos)
        << plan.error().message();
    // A peer that cannot send is spared.
    question = nineteen_and(100);
    question.peers[19].rates.upload_per_s = 0;
    plan = make_plan(question);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_FALSE(plan->peers[19].contributes);
}

TEST(LoadPlan, says_why_a_peer_owns_nothing) {
    LoadQuestion question{.elements_count = 25'557'032};
    for (int i = 1; i <= 4; ++i) question.peers.push_back(peer(fmt::format("g-{}", i), 1000, 1000));
    for (int i = 1; i <= 8; ++i) question.peers.push_back(peer(fmt::format("m-{}", i), 100, 100));
    for (int i = 1; i <= 4; ++i) question.peers.push_back(peer(fmt::format("s-{}", i), 50, 100));
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(mentions(*plan, "m-1 and 7 others own nothing, others have more room"))
        << all(*plan);
    EXPECT_TRUE(mentions(*plan,
                         "s-1 and 3 others own nothing, their own gradient fills their "
                         "upload;"))
        << all(*plan);
    EXPECT_FALSE(mentions(*plan, "too small")) << all(*plan);
    // Only one peer can own parts of a vector of ten elements if six is the least.
    question = {.elements_count = 10, .part_elements_min = 6};
    for (const char* name : {"a", "b"}) question.peers.push_back(peer(name, 100, 100));
    const auto small = make_plan(question);
    ASSERT_TRUE(small);
    EXPECT_TRUE(mentions(*small, "b owns nothing, their part would be too small;")) << all(*small);
}

TEST(LoadPlan, where_nothing_travels_aggregators_save_no_time) {
    LoadQuestion question{.elements_count = 1000};
    question.peers = {peer("a", 100, 100), peer("aux", 100, 100)};
    question.peers[1].rates.contributes = question.peers[1].rates.receives = false;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->split.seconds, 0);
    ASSERT_TRUE(plan->seconds_without);
    EXPECT_EQ(*plan->seconds_without, 0);
}

TEST(LoadPlan, a_time_without_end_is_not_so_many_times_as_long) {
    LoadQuestion question{.elements_count = std::uint64_t{1} << 40};
    for (const char* name : {"a", "b", "c"}) question.peers.push_back(peer(name, 1e-6, 1e-6));
    question.peers[0].rates.owns_allowed = false;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(mentions(*plan, "one server would take forever.")) << all(*plan);
}

TEST(LoadPlan, unreachable_pairs_are_named) {
    LoadQuestion question{.elements_count = 1'000'000};
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

TEST(LoadPlan, a_slow_link_between_two_owners_is_the_bottleneck_that_is_named) {
    LoadQuestion question{.elements_count = 1'000'000};
    for (const char* name : {"a", "b"}) question.peers.push_back(peer(name, 100, 100));
    question.links = {{0, 1, 1000}};
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan);
    // For every owner, a sends b its gradient or the average: 1,000 elements a second.
    EXPECT_NEAR(plan->split.seconds, 1000, 1e-3);
    EXPECT_EQ(plan->split.bottleneck, Bottleneck::link);
    EXPECT_TRUE(mentions(*plan, "the link from a to b sets the time of 16.7 min")) << all(*plan);
}

TEST(LoadPlan, times_and_rates_are_written_with_three_digits) {
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
