#include "dedloc/replica/unsent_gradients.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec.h"

namespace dedloc::replica {
namespace {

class UnsentGradientsTest : public testing::TestWithParam<codec::CodecId> {
  protected:
    std::vector<float> random_vector() {
        std::vector<float> values(many);
        for (float& value : values) value = static_cast<float>(random.normal());
        return values;
    }
    // Everybody takes this of a contribution, which is divided by `divisor` on the way.
    std::vector<float> arrived(std::span<const float> sum, float divisor = 1) const {
        Bytes bytes(codec::encoded_size(GetParam(), sum.size()));
        codec::encode_into(GetParam(), sum, bytes, 1 / divisor);
        std::vector<float> back(sum.size(), 0.0f);
        codec::accumulate_verified(GetParam(), bytes, divisor, back);
        return back;
    }

    const std::size_t block = codec::block_elements(GetParam());
    const std::size_t many = 3 * block + 100;
    Random random{7};
    UnsentGradients unsent{many, GetParam()};
};

// The sent and the unsent numbers add up to all that was handed in, whatever rounds took of it.
TEST_P(UnsentGradientsTest, nothing_is_lost_whatever_the_rounds_take) {
    std::vector<double> balance(many, 0.0);
    for (int step = 0; step < 50; ++step) {
        const std::vector<float> computed = random_vector();
        std::vector<float> sum = computed;
        unsent.hand_in(sum, 100);
        const std::uint64_t until = random.between(0, 3) * block;
        unsent.settle({{0, until}});
        const std::vector<float> sent = arrived(sum);
        for (std::size_t i = 0; i < until; ++i)
            balance[i] += static_cast<double>(computed[i]) - static_cast<double>(sent[i]);
    }
    for (std::size_t i = 0; i < many; ++i)
        ASSERT_NEAR(balance[i], static_cast<double>(unsent.unsent()[i]), 1e-3) << i;
}

// A short round divides by few samples: all that long ones left would be a step of many there.
TEST_P(UnsentGradientsTest, a_short_round_brings_no_more_than_its_share_of_what_long_ones_left) {
    std::vector<float> before = random_vector();
    unsent.hand_in(before, 5000);
    unsent.settle({{0, many}});
    const std::vector<float> waits(unsent.unsent().begin(), unsent.unsent().end());
    std::vector<float> sum(many, 0.0f);
    unsent.hand_in(sum, 250);  // a tenth of half of what is usual
    for (std::size_t i = 0; i < many; ++i) ASSERT_FLOAT_EQ(sum[i], 0.1f * waits[i]) << i;
    unsent.settle({{0, many}});
    const std::vector<float> sent = arrived(sum);
    for (std::size_t i = 0; i < many; ++i)
        ASSERT_NEAR(unsent.unsent()[i] + sent[i], waits[i], 1e-5) << i << ": nothing is lost";
}

TEST_P(UnsentGradientsTest, an_owner_of_a_short_sum_keeps_what_it_held_back_beside_the_rest) {
    unsent.take_up(std::vector<float>(many, 4.0f), 1000);
    std::vector<float> sum(many, 0.0f);
    unsent.hand_in(sum, 250);
    ASSERT_FLOAT_EQ(sum[0], 2.0f);
    const auto rest = std::make_shared<const std::vector<float>>(block, 7.0f);
    unsent.settle({{0, many}}, {{{0, block}, rest, true}});
    EXPECT_FLOAT_EQ(unsent.unsent()[0], 9.0f);
}

// Contributions leave divided by a power of two.
TEST_P(UnsentGradientsTest, what_arrives_is_what_was_taken_off) {
    for (int step = 0; step < 20; ++step) {
        std::vector<float> sum = random_vector();
        unsent.hand_in(sum, 100);
        unsent.settle({{0, many}});
        const std::vector<float> sent = arrived(sum, 64.0f);
        for (std::size_t i = 0; i < many; ++i)
            ASSERT_EQ(unsent.unsent()[i], sum[i] - sent[i]) << i << " in step " << step;
    }
}

// An owner of sparse sums keeps what it left out of them, of everybody's.
TEST_P(UnsentGradientsTest, an_owner_keeps_what_it_left_out_of_a_sum) {
    std::vector<float> sum = random_vector();
    unsent.hand_in(sum, 100);
    const auto rest = std::make_shared<const std::vector<float>>(block, 7.0f);
    // Our contribution is in the first sum, whole, and not in the second; of the third another is
    // the owner, and it took ours.
    unsent.settle({{0, block}, {2 * block, many - 2 * block}},
                  {{{0, block}, rest, true}, {{block, block}, rest, false}});
    const std::vector<float> sent = arrived(sum);
    for (std::size_t i = 0; i < many; ++i) {
        const float expected = i < 2 * block ? 7.0f : sum[i] - sent[i];
        ASSERT_EQ(unsent.unsent()[i], expected) << i;
    }
    // Two rounds to which nothing is brought: a rest is added to what waits, and one that is lost
    // takes nothing along but itself.
    unsent.settle({}, {{{0, block}, rest, false}});
    EXPECT_EQ(unsent.unsent()[0], 14.0f);
    unsent.settle({}, {{{0, block}, nullptr, false}});
    EXPECT_EQ(unsent.unsent()[0], 14.0f);
    std::vector<float> next = random_vector();
    const float fresh = next[0];
    unsent.hand_in(next, 100);
    EXPECT_EQ(next[0], fresh + 14.0f);
    unsent.settle({{0, block}}, {{{0, block}, nullptr, true}});
    EXPECT_EQ(unsent.unsent()[0], 0.0f) << "all of ours was in a sum whose rest is lost";
}

// Whether the step took it nobody here will know.
TEST_P(UnsentGradientsTest, a_process_that_ends_keeps_nothing_that_it_has_sent_or_brought_whole) {
    EXPECT_FALSE(unsent.end({}));
    EXPECT_FALSE(unsent.has_any());
    std::vector<float> sum = random_vector();
    unsent.hand_in(sum, 100);
    EXPECT_TRUE(unsent.end({{block, block}}));
    const std::vector<float> sent = arrived(sum);
    for (std::size_t i = 0; i < many; ++i) {
        const bool whole = i >= block && i < 2 * block;
        ASSERT_EQ(unsent.unsent()[i], whole ? 0.0f : sum[i] - sent[i]) << i;
    }
    EXPECT_TRUE(unsent.has_any());
    EXPECT_FALSE(unsent.end({})) << "that step is over here";
    // A sum to which it brought nothing takes nothing along.
    const std::vector<float> before(unsent.unsent().begin(), unsent.unsent().end());
    EXPECT_TRUE(unsent.end({{0, block}}));
    EXPECT_EQ(std::vector<float>(unsent.unsent().begin(), unsent.unsent().end()), before);
}

TEST_P(UnsentGradientsTest, a_contribution_that_no_round_took_changes_nothing) {
    std::vector<float> first = random_vector();
    unsent.hand_in(first, 100);
    unsent.settle({{0, many}});
    const std::vector<float> before(unsent.unsent().begin(), unsent.unsent().end());
    EXPECT_NE(before, std::vector<float>(many, 0.0f));
    std::vector<float> lost = random_vector();
    unsent.hand_in(lost, 100);
    unsent.settle({});
    EXPECT_EQ(std::vector<float>(unsent.unsent().begin(), unsent.unsent().end()), before);
}

TEST_P(UnsentGradientsTest, numbers_that_are_not_finite_are_shown_and_not_kept) {
    std::vector<float> sum(many, 1.0f);
    sum[block + 5] = std::numeric_limits<float>::infinity();
    unsent.hand_in(sum, 100);
    EXPECT_TRUE(std::isinf(sum[block + 5]));
    unsent.settle({{0, many}});
    for (const float value : unsent.unsent()) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Codecs,
                         UnsentGradientsTest,
                         testing::Values(codec::CodecId::sparse, codec::CodecId::low_rank),
                         [](const auto& codec) {
                             return std::string(codec::to_string(codec.param));
                         });

}  // namespace
}  // namespace dedloc::replica
