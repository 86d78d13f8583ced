#include "dedloc/replica/unsent_gradients.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec.h"

namespace dedloc::replica {
namespace {

constexpr std::size_t many = 3 * 4096 + 100;

std::vector<float> random_vector(Random& random) {
    std::vector<float> values(many);
    for (float& value : values) value = static_cast<float>(random.normal());
    return values;
}

// The sent and the unsent numbers add up to all that was handed in, whatever rounds took of it.
TEST(UnsentGradients, nothing_is_lost_whatever_the_rounds_take) {
    Random random(7);
    UnsentGradients unsent(many);
    std::vector<double> balance(many, 0.0);
    for (int step = 0; step < 50; ++step) {
        const std::vector<float> computed = random_vector(random);
        std::vector<float> sum = computed;
        unsent.compress(sum);
        const std::uint64_t until = random.between(0, 3) * 4096;
        unsent.settle({{0, until}});
        for (std::size_t i = 0; i < until; ++i)
            balance[i] += static_cast<double>(computed[i]) - static_cast<double>(sum[i]);
    }
    for (std::size_t i = 0; i < many; ++i)
        ASSERT_NEAR(balance[i], static_cast<double>(unsent.unsent()[i]), 1e-3) << i;
}

TEST(UnsentGradients, what_is_handed_in_travels_without_further_loss) {
    Random random(8);
    UnsentGradients unsent(many);
    for (int step = 0; step < 20; ++step) {
        std::vector<float> sum = random_vector(random);
        unsent.compress(sum);
        unsent.settle({{0, many}});
        const float factor = std::ldexp(1.0f, -6);
        Bytes bytes(codec::encoded_size(codec::CodecId::sparse, many));
        codec::encode_into(codec::CodecId::sparse, sum, bytes, factor);
        std::vector<float> back(many, 0.0f);
        codec::accumulate_verified(codec::CodecId::sparse, bytes, 64.0f, back);
        ASSERT_EQ(back, sum) << "step " << step;
    }
}

TEST(UnsentGradients, a_contribution_that_no_round_took_changes_nothing) {
    Random random(9);
    UnsentGradients unsent(many);
    std::vector<float> first = random_vector(random);
    unsent.compress(first);
    unsent.settle({{0, many}});
    const std::vector<float> before(unsent.unsent().begin(), unsent.unsent().end());
    std::vector<float> lost = random_vector(random);
    unsent.compress(lost);
    unsent.settle({});
    EXPECT_EQ(std::vector<float>(unsent.unsent().begin(), unsent.unsent().end()), before);
}

TEST(UnsentGradients, numbers_that_are_not_finite_are_shown_and_not_kept) {
    UnsentGradients unsent(many);
    std::vector<float> sum(many, 1.0f);
    sum[5000] = std::numeric_limits<float>::infinity();
    unsent.compress(sum);
    EXPECT_TRUE(std::isinf(sum[5000]));
    unsent.settle({{0, many}});
    for (const float value : unsent.unsent()) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace dedloc::replica
