#include "dedloc/planner/roles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/planner/planner_testing.h"

namespace dedloc::planner {
namespace {

ComputeQuestion question(const std::vector<PeerRates>& peers,
                         const std::vector<double>& samples_per_s,
                         double batch_samples,
                         double elements_count = static_cast<double>(resnet_elements)) {
    return {.peers = peers,
            .samples_per_s = samples_per_s,
            .batch_samples = batch_samples,
            .elements_count = elements_count,
            .delayed = true};
}

TEST(ChooseComputing, everybody_computes_where_computing_is_the_slower_part) {
    const std::vector<PeerRates> peers(4, megabits(100, 100));
    const std::vector<double> speeds(4, 10);
    const auto choice = choose_computing(question(peers, speeds, 4000));
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->computes, std::vector<bool>(4, true));
    EXPECT_DOUBLE_EQ(choice->steps_per_s, 0.01);
    EXPECT_DOUBLE_EQ(choice->steps_per_s_of_all, 0.01);
}

TEST(ChooseComputing, a_slow_uploader_is_spared_where_averaging_is_the_slower_part) {
    // The last peer has 1 Mb/s up, and sending its gradient would take 400 s; the others need 8 s.
    std::vector<PeerRates> peers(4, megabits(100, 100));
    peers[2].upload_per_s = 1e6 / 16;
    const std::vector<double> speeds = {10, 10, 10, 10};
    const auto choice = choose_computing(question(peers, speeds, 240));
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->computes, (std::vector<bool>{true, true, false, true}));
    EXPECT_TRUE(choice->every_choice_tried);
    EXPECT_EQ(choice->samples_per_s, 30);
    EXPECT_GT(choice->steps_per_s, 40 * choice->steps_per_s_of_all);
    // The same peer must compute when the others would need longer than its gradient does.
    const std::vector<double> only_it = {0.01, 0.01, 10, 0.01};
    const auto needed = choose_computing(question(peers, only_it, 4096));
    ASSERT_TRUE(needed);
    EXPECT_TRUE(needed->computes[2]);
}

TEST(ChooseComputing, one_after_the_other_a_round_costs_time_even_where_computing_is_slower) {
    // The last peer has 10 Mb/s up: with it 50 s of computing and 41 s of averaging, without 67 s
    // and 7 s.
    std::vector<PeerRates> peers(4, megabits(100, 100));
    peers[2].upload_per_s = 10e6 / 16;
    const std::vector<double> speeds(4, 10);
    ComputeQuestion asked = question(peers, speeds, 2000);
    const auto delayed = choose_computing(asked);
    ASSERT_TRUE(delayed);
    EXPECT_EQ(delayed->computes, std::vector<bool>(4, true));
    EXPECT_NEAR(1 / delayed->steps_per_s, 50, 0.01);
    asked.delayed = false;
    const auto choice = choose_computing(asked);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->computes, (std::vector<bool>{true, true, false, true}));
    EXPECT_NEAR(1 / choice->steps_per_s, 73.3, 0.1);
    EXPECT_NEAR(1 / choice->steps_per_s_of_all, 90.9, 0.1);
}

TEST(ChooseComputing, a_trainer_that_nobody_can_do_without_is_not_dropped_for_being_slow) {
    const std::vector<PeerRates> peers = {megabits(1, 100), megabits(100, 100)};
    std::vector<double> speeds = {100, 0};
    const auto choice = choose_computing(question(peers, speeds, 64));
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->computes, (std::vector<bool>{true, false}));
    speeds = {0, 0};
    EXPECT_FALSE(choose_computing(question(peers, speeds, 64)));
    speeds = {NAN, 1};
    EXPECT_FALSE(choose_computing(question(peers, speeds, 64)));
}

TEST(ChooseComputing, who_cannot_reach_the_owners_does_not_compute) {
    const std::vector<PeerRates> peers(3, megabits(100, 100));
    const std::vector<LinkLimit> links = {{0, 1, 0}, {0, 2, 0}};
    const std::vector<double> speeds = {10, 10, 10};
    ComputeQuestion asked = question(peers, speeds, 64);
    asked.links = links;
    asked.batch_samples = 1e6;
    const auto choice = choose_computing(asked);
    ASSERT_TRUE(choice) << choice.error().message();
    EXPECT_EQ(choice->computes, (std::vector<bool>{false, true, true}));
    EXPECT_EQ(choice->steps_per_s_of_all, 0);
}

struct RandomNetwork {
    std::vector<PeerRates> peers;
    std::vector<double> speeds;
    double batch = 0;
};

RandomNetwork random_network(std::uint64_t seed, std::size_t peers_count) {
    Random random(seed);
    RandomNetwork network;
    double speed = 0;
    for (std::size_t i = 0; i < peers_count; ++i) {
        network.peers.push_back({.upload_per_s = std::exp2(random.uniform(0, 8)),
                                 .download_per_s = std::exp2(random.uniform(2, 8)),
                                 .contributes = random.chance(0.9),
                                 .receives = random.chance(0.9),
                                 .owns_allowed = random.chance(0.9)});
        network.speeds.push_back(random.chance(0.1) ? 0 : std::exp2(random.uniform(0, 6)));
        speed += network.speeds.back();
    }
    network.batch = std::max(speed, 1.0) * std::exp2(random.uniform(-6, 1));
    return network;
}

struct Best {
    bool delayed = false;
    double steps_per_s = 0;
};

// All choices, by the public plan alone.
std::array<Best, 2> best_steps_per_s(const RandomNetwork& network,
                                     double elements,
                                     const std::vector<LinkLimit>& links = {}) {
    const std::size_t size = network.peers.size();
    Best sum{.delayed = false};
    Best slower{.delayed = true};
    for (std::uint32_t chosen = 1; chosen < 1u << size; ++chosen) {
        std::vector<PeerRates> peers = network.peers;
        double speed = 0;
        bool allowed = true;
        for (std::size_t i = 0; i < size; ++i) {
            const bool computes = (chosen >> i & 1) != 0;
            allowed = allowed && (!computes || peers[i].contributes);
            peers[i].contributes = computes;
            if (computes) speed += network.speeds[i];
        }
        if (!allowed) continue;
        const auto split = split_elements(peers, std::uint64_t{1} << 50, {.links = links});
        if (!split) continue;
        const double seconds = split->seconds * elements / std::exp2(50);
        const double computing = network.batch / speed;
        sum.steps_per_s = std::max(sum.steps_per_s, 1 / (computing + seconds));
        slower.steps_per_s = std::max(slower.steps_per_s, 1 / std::max(computing, seconds));
    }
    return {sum, slower};
}

TEST(ChooseComputing, few_candidates_get_the_best_of_all_choices) {
    constexpr double elements = 100;
    int dropped = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const RandomNetwork network = random_network(seed, 1 + seed % 7);
        ComputeQuestion asked = question(network.peers, network.speeds, network.batch, elements);
        for (const auto& [delayed, best] : best_steps_per_s(network, elements)) {
            asked.delayed = delayed;
            const auto choice = choose_computing(asked);
            EXPECT_EQ(choice.has_value(), best > 0) << "seed " << seed;
            if (!choice) continue;
            EXPECT_TRUE(choice->every_choice_tried);
            EXPECT_NEAR(choice->steps_per_s / best, 1, 1e-9) << "seed " << seed;
            EXPECT_GE(choice->steps_per_s, choice->steps_per_s_of_all);
            if (choice->steps_per_s > choice->steps_per_s_of_all * 1.001) ++dropped;
        }
    }
    EXPECT_GT(dropped, 100) << "or the question is too easy";
}

// How near choices came to the best of all.
struct Nearness {
    double worst = 1;
    int optimal = 0;

    void compare(ComputeQuestion asked, bool delayed, double best, double least) {
        asked.delayed = delayed;
        const auto choice = choose_computing(asked);
        ASSERT_EQ(choice.has_value(), best > 0);
        if (!choice) return;
        const double ratio = choice->steps_per_s / best;
        EXPECT_LE(ratio, 1 + 1e-9);
        EXPECT_GE(ratio, least);
        worst = std::min(worst, ratio);
        if (ratio > 1 - 1e-9) ++optimal;
    }
    void record(int cases) const {
        testing::Test::RecordProperty("worst_ratio", fmt::format("{:.4f}", worst));
        testing::Test::RecordProperty("optimal", fmt::format("{} of {}", optimal, 2 * cases));
    }
};

TEST(ChooseComputing, many_candidates_get_nearly_the_best_of_all_choices) {
    constexpr double elements = 100;
    Nearness nearness;
    constexpr int cases = 40;
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
        RandomNetwork network = random_network(seed, 12);
        for (PeerRates& peer : network.peers) peer.contributes = true;
        for (double& speed : network.speeds) speed = std::max(speed, 1.0);
        ComputeQuestion asked = question(network.peers, network.speeds, network.batch, elements);
        SCOPED_TRACE(fmt::format("seed {}", seed));
        for (const auto& [delayed, best] : best_steps_per_s(network, elements))
            nearness.compare(asked, delayed, best, 0.97);
    }
    nearness.record(cases);
}

TEST(ChooseComputing, many_candidates_with_limits_of_links_do_well) {
    constexpr double elements = 100;
    Nearness nearness;
    constexpr int cases = 20;
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
        RandomNetwork network = random_network(seed, 11);
        for (PeerRates& peer : network.peers) peer.contributes = true;
        for (double& speed : network.speeds) speed = std::max(speed, 1.0);
        Random random(seed + 1000);
        std::vector<LinkLimit> links;
        for (std::uint32_t from = 0; from < 11; ++from)
            for (std::uint32_t to = 0; to < 11; ++to)
                if (from != to && random.chance(0.2))
                    links.push_back({from, to, std::exp2(random.uniform(0, 5))});
        ComputeQuestion asked = question(network.peers, network.speeds, network.batch, elements);
        asked.links = links;
        SCOPED_TRACE(fmt::format("seed {}", seed));
        for (const auto& [delayed, best] : best_steps_per_s(network, elements, links))
            nearness.compare(asked, delayed, best, 0.9);
    }
    nearness.record(cases);
}

TEST(AggregatorAdvice, helps_slow_uploaders_and_says_how_fast_it_must_be) {
    const std::vector<PeerRates> workers(8, megabits(20, 100));
    const auto advice = advise_on_aggregator(workers, {}, static_cast<double>(resnet_elements));
    ASSERT_TRUE(advice);
    EXPECT_NEAR(advice->seconds_now, 35.8, 0.05);
    EXPECT_NEAR(advice->seconds_best, 20.45, 0.01);
    ASSERT_GT(advice->rate_per_s, 0);
    const auto seconds_with = [&](double rate) {
        std::vector<PeerRates> more = workers;
        more.push_back({.upload_per_s = rate,
                        .download_per_s = rate,
                        .contributes = false,
                        .receives = false});
        return split_elements(more, resnet_elements)->seconds;
    };
    EXPECT_LE(seconds_with(advice->rate_per_s), advice->seconds_best * 1.011);
    EXPECT_GT(seconds_with(advice->rate_per_s * 0.95), advice->seconds_best * 1.011);
}

TEST(AggregatorAdvice, does_not_help_where_the_slowest_must_send_everything_anyway) {
    // 4 of 200, 8 of 100, 4 of 50 Mb/s: the last ones need P / 50 Mb/s.
    std::vector<PeerRates> peers(4, megabits(200, 200));
    peers.insert(peers.end(), 8, megabits(100, 100));
    peers.insert(peers.end(), 4, megabits(50, 50));
    const auto advice = advise_on_aggregator(peers, {}, static_cast<double>(resnet_elements));
    ASSERT_TRUE(advice);
    EXPECT_EQ(advice->rate_per_s, 0);
    EXPECT_NEAR(advice->seconds_best, 8.18, 0.01);
}

TEST(AggregatorAdvice, reaches_those_who_cannot_reach_each_other) {
    const std::vector<PeerRates> peers(3, megabits(100, 100));
    const std::vector<LinkLimit> links = {{0, 1, 1e4}, {1, 0, 1e4}};
    const auto advice = advise_on_aggregator(peers, links, static_cast<double>(resnet_elements));
    ASSERT_TRUE(advice);
    EXPECT_GT(advice->rate_per_s, 0);
    EXPECT_LT(advice->seconds_best, advice->seconds_now);
    EXPECT_EQ(advise_on_aggregator(std::span(peers).first(1), {}, 100)->rate_per_s, 0);
}

}  // namespace
}  // namespace dedloc::planner
