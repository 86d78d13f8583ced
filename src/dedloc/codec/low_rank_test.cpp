#include "dedloc/codec/low_rank.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/codec/codec.h"
#include "dedloc/codec/codec_testing.h"
#include "dedloc/codec/error_feedback.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr CodecId id = CodecId::low_rank;

std::vector<float> decoded(ByteView bytes, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(decode(id, bytes, values));
    return values;
}

// The share of the squares that an encoding leaves out.
double share_left(std::span<const float> values) {
    std::vector<float> left(values.begin(), values.end());
    EXPECT_TRUE(decode_accumulate(id, encode(id, values), -1.0f, left));
    return tensor::sum_of_squares(left) / tensor::sum_of_squares(values);
}

// A block, row by row, that is the sum of so many products of normal vectors.
std::vector<float> block_of_rank(std::size_t rank, std::uint64_t seed) {
    const std::vector<float> p = normal_vector(rank * low_rank_side, seed);
    const std::vector<float> q = normal_vector(rank * low_rank_side, seed + 1);
    std::vector<float> block(low_rank_block, 0.0f);
    for (std::size_t i = 0; i < block.size(); ++i)
        for (std::size_t k = 0; k < rank; ++k)
            block[i] +=
                p[k * low_rank_side + i / low_rank_side] * q[k * low_rank_side + i % low_rank_side];
    return block;
}

// The header's words as plain code: a whole number of 4 bits, and the sum that a number is.
float plain_level(ByteView levels, std::size_t at) {
    const int four_bits = at % 2 == 0 ? levels[at / 2] % 16 : levels[at / 2] / 16;
    return static_cast<float>(four_bits < 8 ? four_bits : four_bits - 16);
}

float plain_number(ByteView block, std::size_t elements, std::size_t element) {
    const auto columns = static_cast<std::size_t>(std::ceil(std::sqrt(elements)));
    const std::size_t rows = (elements + columns - 1) / columns;
    const std::size_t products = std::min<std::size_t>(4, rows);
    const ByteView levels = block.subspan(4 * products);
    float sum = 0;
    for (std::size_t k = 0; k < products; ++k) {
        float s = 0;
        std::memcpy(&s, block.data() + 4 * k, 4);
        const float p = s * plain_level(levels, k * rows + element / columns);
        const float term =
            p * plain_level(levels, products * rows + k * columns + element % columns);
        sum = sum + term;
    }
    return sum;
}

TEST(LowRank, numbers_are_those_of_plain_code_to_the_bit) {
    for (const std::size_t size : {1u, 2u, 3u, 7u, 12u, 16u, 17u, 1000u, 16'383u, 16'384u}) {
        Bytes bytes = encode(id, normal_vector(size, size));
        for (const std::uint8_t change : {std::uint8_t{0}, std::uint8_t{0xa5}}) {
            for (std::size_t i = bytes.size() / 2; i < bytes.size(); ++i) bytes[i] ^= change;
            const std::vector<float> values = decoded(bytes, size);
            for (std::size_t i = 0; i < size; ++i)
                ASSERT_EQ(values[i], plain_number(bytes, size, i)) << i << " of " << size;
        }
    }
}

TEST(LowRank, a_block_is_as_long_as_its_shape_and_shows_it) {
    EXPECT_EQ(encoded_size(id, low_rank_block), 4u * 4 + 4 * (128 + 128) / 2);
    EXPECT_EQ(encoded_size(id, 3 * low_rank_block + 1), 3u * 528 + 5);
    EXPECT_EQ(encoded_size(id, 0), 0u);
    std::size_t before = 0;
    for (std::size_t size = 1; size <= low_rank_block; ++size) {
        ASSERT_GE(encoded_size(id, size), before);
        before = encoded_size(id, size);
        ASSERT_LE(before, 8 * size) << size;
    }
    for (std::size_t size = 1; size <= 2 * low_rank_block; size += size < 300 ? 1 : 977) {
        const Bytes bytes = encode(id, normal_vector(size, size));
        const std::vector<float> values = decoded(bytes, size);
        float largest = 0;
        for (const float value : values) largest = std::max(largest, std::abs(value));
        ASSERT_GE(magnitude_bound(id, bytes), largest) << size;
        ASSERT_LT(magnitude_bound(id, bytes), 2 * largest) << size;
    }
}

TEST(LowRank, a_block_of_rank_four_is_nearly_all_in_its_encoding) {
    for (std::size_t rank = 1; rank <= 4; ++rank)
        EXPECT_LT(share_left(block_of_rank(rank, 10 * rank)), 0.04) << rank;
    EXPECT_GT(share_left(block_of_rank(8, 90)), 0.2);
}

// The best four products of a normal matrix hold 11 % of its squares.
TEST(LowRank, of_noise_it_takes_the_largest_directions) {
    EXPECT_LT(share_left(normal_vector(low_rank_block, 4)), 0.92);
}

TEST(LowRank, vectors_alike_are_not_sent_twice) {
    std::vector<float> block = block_of_rank(1, 5);
    for (float& value : block) value *= 1e-20f;
    EXPECT_LT(share_left(block), 0.04);
    std::vector<float> one(low_rank_block, 0.0f);
    one[5000] = -3.0f;
    EXPECT_EQ(decoded(encode(id, one), one.size()), one);
}

TEST(LowRank, with_error_feedback_all_of_a_vector_arrives) {
    const std::vector<float> values = normal_vector(low_rank_block + 500, 7);
    ErrorFeedback feedback(stateless_codec(id), values.size());
    std::vector<float> sum(values.size(), 0.0f);
    constexpr int steps = 200;
    for (int step = 0; step < steps; ++step) {
        const auto bytes = feedback.encode(values);
        ASSERT_TRUE(bytes);
        ASSERT_TRUE(decode_accumulate(id, *bytes, 1.0f / steps, sum));
        feedback.settle(true);
    }
    tensor::add_weighted(sum, values, -1.0f);
    EXPECT_LT(tensor::sum_of_squares(sum) / tensor::sum_of_squares(values), 0.04);
}

TEST(LowRank, a_power_of_two_scales_what_arrives_and_changes_nothing_else) {
    const std::vector<float> values = normal_vector(low_rank_block + 777, 8);
    const std::vector<float> whole = decoded(encode(id, values), values.size());
    for (const int exponent : {-40, -9, -1, 3, 60}) {
        const float factor = std::ldexp(1.0f, exponent);
        Bytes bytes(encoded_size(id, values.size()));
        encode_into(id, values, bytes, factor);
        std::vector<float> back = decoded(bytes, values.size());
        tensor::scale(back, 1.0f / factor);
        EXPECT_EQ(back, whole) << exponent;
    }
}

TEST(LowRank, what_is_finite_stays_finite) {
    const float most = std::numeric_limits<float>::max();
    for (const float size : {most, 1e38f, 1e-38f, 1e-42f, 0.0f}) {
        std::vector<float> values = normal_vector(3000, 9);
        for (float& value : values) value = std::clamp(value, -1.0f, 1.0f) * size;
        const Bytes bytes = encode(id, values);
        EXPECT_TRUE(std::isfinite(magnitude_bound(id, bytes))) << size;
    }
    const std::vector<float> zeros(3000, 0.0f);
    EXPECT_EQ(decoded(encode(id, zeros), zeros.size()), zeros);
}

TEST(LowRank, hostile_bytes_are_refused_and_add_nothing) {
    const Bytes good = encode(id, normal_vector(low_rank_block + 900, 11));
    const std::vector<float> before(low_rank_block + 900, 1.0f);
    const auto refused = [&](const Bytes& bytes) {
        std::vector<float> sum = before;
        const bool added = decode_accumulate(id, bytes, 1.0f, sum).has_value();
        EXPECT_TRUE(added || sum == before);
        return !added;
    };
    EXPECT_FALSE(refused(good));
    for (const float bad : {INFINITY, -INFINITY, NAN, 1e38f, -1e38f})
        for (const std::size_t at : {std::size_t{0}, std::size_t{12}, low_rank_block_bytes + 4}) {
            Bytes bytes = good;
            std::memcpy(bytes.data() + at, &bad, 4);
            EXPECT_TRUE(refused(bytes)) << bad << " at " << at;
        }
    for (const std::size_t length : {std::size_t{0}, std::size_t{528}, good.size() - 1}) {
        Bytes bytes = good;
        bytes.resize(length);
        EXPECT_TRUE(refused(bytes)) << length;
    }
    for (std::size_t length = 0; length < 1200; ++length)  // of no number of elements, too
        (void)magnitude_bound(id, Bytes(length, 0x77));
}

}  // namespace
}  // namespace dedloc::codec
