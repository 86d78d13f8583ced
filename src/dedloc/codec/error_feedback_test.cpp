#include "dedloc/codec/error_feedback.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec_testing.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t elements_count = 6000;

std::vector<StatelessCodec> lossy_codecs() {
    return {stateless_codec(CodecId::fp16),
            stateless_codec(CodecId::bf16),
            stateless_codec(CodecId::blockwise8),
            stateless_codec(TopK{}),
            stateless_codec(TopK{1})};
}

// One unit in the last place, as a bound of one rounding of something this large.
double ulp(double magnitude) { return std::max(magnitude, 1e-30) * 0x1p-23; }

TEST(ErrorFeedback, sent_and_residual_together_are_the_input) {
    for (const StatelessCodec& codec : lossy_codecs()) {
        ErrorFeedback feedback(codec, elements_count);
        std::vector<double> given(elements_count, 0.0);
        std::vector<double> sent(elements_count, 0.0);
        std::vector<double> bound(elements_count, 0.0);
        for (std::uint64_t step = 0; step < 40; ++step) {
            const std::vector<float> input = normal_vector(elements_count, step);
            const std::vector<float> before(feedback.residual().begin(), feedback.residual().end());
            const Bytes bytes = *feedback.encode(input);
            std::vector<float> decoded(elements_count);
            ASSERT_TRUE(codec.decode(bytes, decoded));
            feedback.settle(true);
            for (std::size_t i = 0; i < elements_count; ++i) {
                given[i] += static_cast<double>(input[i]);
                sent[i] += static_cast<double>(decoded[i]);
                const double pending = static_cast<double>(before[i]) + input[i];
                const double residual = feedback.residual()[i];
                // One step: half a unit for each of the two roundings.
                const double step_bound = (ulp(std::abs(pending)) + ulp(std::abs(residual))) / 2;
                ASSERT_LE(std::abs(pending - decoded[i] - residual), step_bound)
                    << codec.name << " step " << step << " element " << i;
                bound[i] += step_bound;
                ASSERT_LE(std::abs(given[i] - sent[i] - residual), bound[i] + 1e-12) << codec.name;
            }
        }
    }
}

TEST(ErrorFeedback, whole_numbers_are_conserved_exactly) {
    // Residuals of whole numbers by powers of two are exact in fp32.
    ErrorFeedback feedback(stateless_codec(TopK{}), elements_count);
    Random random(5);
    std::vector<float> balance(elements_count, 0.0f);
    for (int step = 0; step < 30; ++step) {
        std::vector<float> input(elements_count);
        for (float& value : input) value = random.chance(0.5) ? 8.0f : -8.0f;
        const Bytes bytes = *feedback.encode(input);
        feedback.settle(true);
        for (std::size_t i = 0; i < elements_count; ++i) balance[i] += input[i];
        ASSERT_TRUE(TopK{}.decode_accumulate(bytes, -1.0f, balance));
        // Magnitudes are means of multiples of 8 over at most 64 numbers.
        double difference = 0;
        for (std::size_t i = 0; i < elements_count; ++i)
            difference =
                std::max<double>(difference, std::abs(balance[i] - feedback.residual()[i]));
        ASSERT_LE(difference, 1e-4) << step;
        if (step == 0) {
            ASSERT_EQ(difference, 0) << "all magnitudes are 8";
        }
    }
}

TEST(ErrorFeedback, a_constant_gradient_arrives_in_the_end) {
    // Top-1 of 4,096 sends two numbers a step; what waits grows until it is its turn.
    const std::vector<float> input = normal_vector(elements_count, 9);
    for (const StatelessCodec& codec : lossy_codecs()) {
        ErrorFeedback feedback(codec, elements_count);
        std::vector<float> sum(elements_count, 0.0f);
        const int steps = 400;
        for (int step = 0; step < steps; ++step) {
            ASSERT_TRUE(codec.decode_accumulate(*feedback.encode(input), 1.0f, sum));
            feedback.settle(true);
        }
        double error = 0;
        double whole = 0;
        for (std::size_t i = 0; i < elements_count; ++i) {
            error += std::pow(sum[i] / steps - input[i], 2);
            whole += std::pow(static_cast<double>(input[i]), 2);
        }
        const double rmse = std::sqrt(error / whole);
        const double bound = codec.name == "topk1" ? 0.99 : codec.name == "topk64" ? 0.1 : 1e-4;
        EXPECT_LT(rmse, bound) << codec.name;
    }
}

TEST(ErrorFeedback, a_round_that_did_not_take_the_vector_loses_nothing) {
    ErrorFeedback feedback(stateless_codec(TopK{}), elements_count);
    const std::vector<float> input = normal_vector(elements_count, 11);
    (void)*feedback.encode(input);
    feedback.settle(false);
    EXPECT_EQ(std::vector<float>(feedback.residual().begin(), feedback.residual().end()), input);
    (void)*feedback.encode(std::vector<float>(elements_count, 0.0f));
    feedback.settle(true);
    EXPECT_NE(std::vector<float>(feedback.residual().begin(), feedback.residual().end()), input);
    feedback.forget();
    EXPECT_EQ(feedback.residual()[3], 0.0f);
}

TEST(ErrorFeedback, decay_shrinks_what_waits) {
    ErrorFeedback feedback(stateless_codec(TopK{1}), elements_count, 0.5f);
    std::vector<float> input(elements_count, 1.0f);
    input[0] = 4.0f;
    input[5000] = 4.0f;
    (void)*feedback.encode(input);
    feedback.settle(true);
    EXPECT_EQ(feedback.residual()[0], 0.0f);
    EXPECT_EQ(feedback.residual()[1], 0.5f);
    (void)*feedback.encode(input);
    feedback.settle(true);
    EXPECT_EQ(feedback.residual()[1], 0.75f);
}

TEST(ErrorFeedback, what_no_round_took_is_not_shrunk) {
    ErrorFeedback feedback(stateless_codec(TopK{}), elements_count, 0.5f);
    const std::vector<float> input = normal_vector(elements_count, 12);
    (void)*feedback.encode(input);
    feedback.settle(false);
    (void)*feedback.encode(std::vector<float>(elements_count, 0.0f));
    feedback.settle(false);
    EXPECT_EQ(std::vector<float>(feedback.residual().begin(), feedback.residual().end()), input);
}

TEST(ErrorFeedback, numbers_that_are_not_finite_change_nothing) {
    for (const StatelessCodec& codec : lossy_codecs()) {
        ErrorFeedback feedback(codec, elements_count);
        (void)*feedback.encode(normal_vector(elements_count, 13));
        feedback.settle(true);
        const std::vector<float> before(feedback.residual().begin(), feedback.residual().end());
        std::vector<float> bad(elements_count, 1.0f);
        bad[77] = NAN;
        EXPECT_FALSE(feedback.encode(bad)) << codec.name;
        bad[77] = 3e38f;
        EXPECT_EQ(feedback.encode(bad).has_value(), codec.name == "fp16") << codec.name;
        if (codec.name == "fp16")
            feedback.settle(false);
        else
            EXPECT_EQ(std::vector<float>(feedback.residual().begin(), feedback.residual().end()),
                      before);
    }
}

}  // namespace
}  // namespace dedloc::codec
