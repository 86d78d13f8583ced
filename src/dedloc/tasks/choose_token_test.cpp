#include "dedloc/tasks/choose_token.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace dedloc::tasks {
namespace {

// How often each is chosen of 20,000.
std::vector<double> shares(const std::vector<float>& scores, const ChoiceOptions& options) {
    Random random(3);
    std::vector<double> counts(scores.size());
    for (int i = 0; i < 20'000; ++i) ++counts[choose_token(scores, options, random)];
    for (double& count : counts) count /= 20'000;
    return counts;
}

const std::vector<float> scores{std::log(1.0f), std::log(5.0f), std::log(3.0f), std::log(1.0f)};

TEST(ChooseToken, follows_the_probabilities) {
    const auto all = shares(scores, {});
    EXPECT_NEAR(all[0], 0.1, 0.02);
    EXPECT_NEAR(all[1], 0.5, 0.02);
    EXPECT_NEAR(all[2], 0.3, 0.02);
    EXPECT_NEAR(shares(scores, {.temperature = 0.5})[1], 25.0 / 36, 0.02);
}

TEST(ChooseToken, takes_the_likeliest_without_temperature) {
    EXPECT_EQ(shares(scores, {.temperature = 0})[1], 1);
}

TEST(ChooseToken, leaves_out_the_unlikely) {
    const auto two = shares(scores, {.top_k = 2});
    EXPECT_EQ(two[0] + two[3], 0);
    EXPECT_NEAR(two[2], 3.0 / 8, 0.02);
    const auto most = shares(scores, {.top_p = 0.75});
    EXPECT_EQ(most[0] + most[3], 0);
    EXPECT_NEAR(most[2], 3.0 / 8, 0.02);
    EXPECT_EQ(shares(scores, {.top_p = 0.2})[1], 1);
}

TEST(ChooseToken, is_the_same_for_the_same_seed) {
    Random one(5);
    Random two(5);
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(choose_token(scores, {}, one), choose_token(scores, {}, two));
}

}  // namespace
}  // namespace dedloc::tasks
