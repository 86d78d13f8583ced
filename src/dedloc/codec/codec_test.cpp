#include "dedloc/codec/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec_testing.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

std::vector<float> vector_of_many_sizes(std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(size);
    for (float& value : values) {
        value = static_cast<float>(
            std::ldexp(random.normal(), static_cast<int>(random.between(-12, 3))));
    }
    return values;
}

TEST(Codec, words_and_numbers_name_the_same_codec) {
    for (const CodecId id : all_codecs()) {
        if (id != CodecId::sparse_sum) {
            EXPECT_EQ(*codec_from_string(to_string(id)), id);
        }
        EXPECT_EQ(*codec_from_number(static_cast<std::uint64_t>(id)), id);
    }
    EXPECT_EQ(codec_from_string("fp16x").error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(codec_from_string("fp16x").error().message(),
              "'fp16x' is not a codec; use one of fp32, fp16, bf16, blockwise8, sparse, "
              "low_rank");
    EXPECT_FALSE(codec_from_string("sparse_sum")) << "owners' alone";
    EXPECT_EQ(codec_from_number(200).error().kind(), ErrorKind::unsupported);
    EXPECT_EQ(codec_from_number(std::uint64_t{1} << 32).error().kind(), ErrorKind::unsupported);
}

TEST(Codec, sparse_ones_are_those_that_leave_most_of_a_vector_out) {
    const std::vector<float> values = normal_vector(10'000, 6);
    for (const CodecId id : all_codecs()) {
        std::vector<float> left = values;
        ASSERT_TRUE(decode_accumulate(id, encode(id, values), -1.0f, left));
        const double share = tensor::sum_of_squares(left) / tensor::sum_of_squares(values);
        EXPECT_EQ(is_sparse(id), share > 0.5) << to_string(id) << ": " << share;
        EXPECT_LT(share, 1.0) << to_string(id);
    }
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::sparse, encode(CodecId::sparse, values), back));
    EXPECT_GT(std::ranges::count(back, 0.0f), 9500);
}

TEST(Codec, sums_of_sparse_contributions_hold_eight_times_as_many_numbers) {
    EXPECT_EQ(encoded_size(CodecId::sparse, 4096), 88u);
    EXPECT_EQ(encoded_size(CodecId::sparse_sum, 4096), 456u);
    EXPECT_DOUBLE_EQ(bytes_per_element(CodecId::sparse_sum), 456.0 / 4096);
    const std::vector<float> values = normal_vector(4096, 8);
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::sparse_sum, encode(CodecId::sparse_sum, values), back));
    EXPECT_EQ(std::ranges::count(back, 0.0f), 4096 - 512);
    EXPECT_EQ(sum_codec(CodecId::sparse), CodecId::sparse_sum);
    for (const CodecId id : all_codecs())
        EXPECT_EQ(sum_codec(id).has_value(), id == CodecId::sparse) << to_string(id);
}

TEST(Codec, an_average_costs_what_its_contributors_bring_or_their_sum) {
    EXPECT_EQ(average_cost(CodecId::fp16, 40, 16), 1);
    EXPECT_EQ(average_cost(CodecId::sparse, 1, 16), 1);
    EXPECT_EQ(average_cost(CodecId::sparse, 16, 16), 15);
    EXPECT_DOUBLE_EQ(average_cost(CodecId::sparse, 17, 16), 456.0 / 88);
    EXPECT_DOUBLE_EQ(average_cost(CodecId::sparse, 256, 16), 456.0 / 88);
    EXPECT_EQ(average_cost(CodecId::low_rank, 40, 16), 39) << "these are always gathered";
}

TEST(Codec, fp32_returns_every_bit) {
    std::vector<float> values = vector_of_many_sizes(1001, 1);
    values[3] = -0.0f;
    values[4] = std::numeric_limits<float>::denorm_min();
    const Bytes bytes = encode(CodecId::fp32, values);
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::fp32, bytes, back));
    EXPECT_EQ(std::memcmp(back.data(), values.data(), bytes.size()), 0);
}

TEST(Codec, bytes_on_the_wire_are_little_endian) {
    const std::vector<float> values = {1.0f, -2.5f};
    EXPECT_EQ(encode(CodecId::fp32, values), (Bytes{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0}));
    EXPECT_EQ(encode(CodecId::fp16, values), (Bytes{0, 0x3c, 0, 0xc1}));
}

TEST(Codec, fp16_stays_within_its_stated_error) {
    const std::vector<float> values = vector_of_many_sizes(100000, 2);
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::fp16, encode(CodecId::fp16, values), back));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double bound = std::max(std::abs(static_cast<double>(values[i])) * 0x1p-11, 0x1p-25);
        ASSERT_LE(std::abs(static_cast<double>(back[i]) - values[i]), bound) << values[i];
    }
}

TEST(Codec, fp16_saturates_finite_values_and_shows_non_finite_ones) {
    const std::vector<float> values = {1e9f, -1e9f, 65504.0f, 65535.0f, INFINITY, -INFINITY, NAN};
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::fp16, encode(CodecId::fp16, values), back));
    EXPECT_EQ(back[0], 65504.0f);
    EXPECT_EQ(back[1], -65504.0f);
    EXPECT_EQ(back[2], 65504.0f);
    EXPECT_EQ(back[3], 65504.0f);
    EXPECT_EQ(back[4], INFINITY);
    EXPECT_EQ(back[5], -INFINITY);
    EXPECT_TRUE(std::isnan(back[6]));
}

TEST(Codec, bf16_stays_within_its_stated_error_and_finite) {
    std::vector<float> values = vector_of_many_sizes(100000, 3);
    std::vector<float> back(values.size());
    ASSERT_TRUE(decode(CodecId::bf16, encode(CodecId::bf16, values), back));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double bound = std::abs(static_cast<double>(values[i])) * 0x1p-8;
        ASSERT_LE(std::abs(static_cast<double>(back[i]) - values[i]), bound) << values[i];
    }
    values = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), INFINITY, NAN};
    back.resize(values.size());
    ASSERT_TRUE(decode(CodecId::bf16, encode(CodecId::bf16, values), back));
    EXPECT_EQ(back[0], 0x1.fep127f);
    EXPECT_EQ(back[1], -0x1.fep127f);
    EXPECT_EQ(back[2], INFINITY);
    EXPECT_TRUE(std::isnan(back[3]));
}

TEST(Codec, a_factor_scales_before_encoding) {
    for (const CodecId id : all_codecs()) {
        const std::vector<float> values = vector_of_many_sizes(3001, 5);
        std::vector<float> scaled = values;
        tensor::scale(scaled, 0x1p-9f);
        Bytes out(encoded_size(id, values.size()));
        encode_into(id, values, out, 0x1p-9f);
        EXPECT_EQ(out, encode(id, scaled)) << to_string(id);
    }
}

TEST(Codec, windows_of_a_part_are_encodings_by_themselves) {
    for (const CodecId id : all_codecs()) {
        const std::size_t step = block_elements(id) * (block_elements(id) == 1 ? 1000 : 2);
        const std::vector<float> values = vector_of_many_sizes(3 * step + 17, 6);
        const Bytes bytes = encode(id, values);
        Bytes joined;
        std::vector<float> whole(values.size(), 1.0f);
        std::vector<float> piecewise(values.size(), 1.0f);
        ASSERT_TRUE(decode_accumulate(id, bytes, 0.3f, whole));
        for (std::size_t first = 0; first < values.size(); first += step) {
            const std::size_t count = std::min(step, values.size() - first);
            const ByteView view = window(id, bytes, first, count);
            const Bytes alone = encode(id, std::span(values).subspan(first, count));
            EXPECT_EQ(Bytes(view.begin(), view.end()), alone) << to_string(id);
            joined.insert(joined.end(), alone.begin(), alone.end());
            accumulate_verified(id, view, 0.3f, std::span(piecewise).subspan(first, count));
        }
        EXPECT_EQ(joined, bytes) << to_string(id);
        EXPECT_EQ(piecewise, whole) << to_string(id);
    }
}

TEST(Codec, what_is_not_finite_or_too_large_is_refused_and_nothing_is_added) {
    for (const CodecId id : all_codecs()) {
        for (const float bad : {INFINITY, -INFINITY, NAN}) {
            for (const std::size_t place : {std::size_t{0}, std::size_t{1023}, std::size_t{2999}}) {
                std::vector<float> values = vector_of_many_sizes(3000, 7);
                values[place] = bad;
                const Bytes bytes = encode(id, values);
                std::vector<float> sum(values.size(), 5.0f);
                const auto refused = decode_accumulate(id, bytes, 1.0f, sum);
                ASSERT_FALSE(refused) << to_string(id);
                EXPECT_EQ(refused.error().kind(), ErrorKind::bad_input);
                EXPECT_EQ(sum, std::vector<float>(values.size(), 5.0f));
                std::vector<float> back(values.size());
                ASSERT_TRUE(decode(id, bytes, back));
                EXPECT_FALSE(tensor::all_finite(back)) << "decoding must show it";
            }
        }
        const Bytes large = encode(id, std::vector<float>(40, 60000.0f));
        std::vector<float> sum(40, 0.0f);
        EXPECT_TRUE(decode_accumulate(id, large, 0x1p62f, sum)) << to_string(id);
        EXPECT_FALSE(decode_accumulate(id, large, 0x1p100f, sum)) << to_string(id);
        EXPECT_FALSE(decode_accumulate(id, large, NAN, sum)) << to_string(id);
    }
}

TEST(Codec, the_bound_of_magnitudes_is_close) {
    for (const CodecId id : all_codecs()) {
        for (const std::size_t size : {1u, 7u, 1024u, 5000u}) {
            const Bytes bytes = encode(id, vector_of_many_sizes(size, 30 + size));
            std::vector<float> decoded(size);
            ASSERT_TRUE(decode(id, bytes, decoded));
            float largest = 0;
            for (const float value : decoded) largest = std::max(largest, std::abs(value));
            EXPECT_GE(magnitude_bound(id, bytes), largest) << to_string(id);
            EXPECT_LE(magnitude_bound(id, bytes), largest * 1.01f) << to_string(id);
        }
        EXPECT_EQ(magnitude_bound(id, {}), 0.0f);
    }
}

// The error (rmse) of contributions and average encoded, relative to the exact average.
double average_error(CodecId id, std::size_t peers, bool laplace) {
    const std::size_t size = 1 << 16;
    Random random(100 + peers);
    std::vector<double> exact(size, 0.0);
    std::vector<float> sum(size, 0.0f);
    for (std::size_t peer = 0; peer < peers; ++peer) {
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i) {
            double value = random.normal();
            if (laplace) value *= std::abs(random.normal());  // heavier tails
            values[i] = static_cast<float>(value);
            exact[i] += static_cast<double>(values[i]) / static_cast<double>(peers);
        }
        EXPECT_TRUE(decode_accumulate(id, encode(id, values), 1.0f, sum));
    }
    tensor::divide(sum, static_cast<float>(peers));
    std::vector<float> average(size);
    EXPECT_TRUE(decode(id, encode(id, sum), average));
    double error = 0;
    double whole = 0;
    for (std::size_t i = 0; i < size; ++i) {
        error += (average[i] - exact[i]) * (average[i] - exact[i]);
        whole += exact[i] * exact[i];
    }
    return std::sqrt(error / whole);
}

TEST(Codec, shows_what_was_cut_off_at_the_end_of_its_range) {
    for (const CodecId id : all_codecs())
        for (const float large : {65'400.0f, 65'504.0f, -70'000.0f, 1e30f}) {
            std::vector<float> values(5000, 1.0f);
            values[4321] = large;
            const bool is_cut = id == CodecId::fp16 && std::abs(large) > 65'503.0f;
            EXPECT_EQ(is_at_its_range(id, encode(id, values)), is_cut)
                << to_string(id) << " " << large;
        }
}

TEST(Codec, the_error_of_an_average_does_not_grow_with_the_group) {
    for (const std::size_t peers : {2u, 8u, 32u}) {
        EXPECT_LT(average_error(CodecId::fp32, peers, false), 1e-6) << peers;
        EXPECT_LT(average_error(CodecId::fp16, peers, false), 3.5e-4) << peers;
        EXPECT_LT(average_error(CodecId::bf16, peers, false), 2.5e-3) << peers;
        EXPECT_LT(average_error(CodecId::blockwise8, peers, false), 0.0108) << peers;
        EXPECT_GT(average_error(CodecId::blockwise8, peers, false), 0.0100) << peers;
        EXPECT_LT(average_error(CodecId::blockwise8, peers, true), 0.02) << peers;
    }
}

TEST(Codec, decoding_twice_changes_nothing) {
    // The owner applies decode(encode(average)); encoding that again must give the same bytes.
    // Blocks choose their scale anew, so there a second encoding may move a value by half a step.
    for (const CodecId id : all_codecs()) {
        if (block_elements(id) > 1) continue;
        const std::vector<float> values = vector_of_many_sizes(777, 4);
        const Bytes bytes = encode(id, values);
        std::vector<float> back(values.size());
        ASSERT_TRUE(decode(id, bytes, back));
        EXPECT_EQ(encode(id, back), bytes) << to_string(id);
    }
}

TEST(Codec, a_wrong_length_is_an_error_and_touches_nothing) {
    for (const CodecId id : all_codecs()) {
        const Bytes bytes = encode(id, std::vector<float>(10, 1.0f));
        for (const std::size_t size : {std::size_t{0}, bytes.size() - 1, bytes.size() + 1}) {
            Bytes wrong = bytes;
            wrong.resize(size);
            std::vector<float> out(10, 7.0f);
            EXPECT_EQ(decode(id, wrong, out).error().kind(), ErrorKind::bad_input);
            EXPECT_EQ(decode_accumulate(id, wrong, 2.0f, out).error().kind(), ErrorKind::bad_input);
            EXPECT_EQ(out, std::vector<float>(10, 7.0f));
        }
        EXPECT_TRUE(decode(id, Bytes{}, {}));
    }
}

TEST(Codec, the_fused_sum_has_the_bits_of_the_plain_one) {
    for (const CodecId id : all_codecs()) {
        for (const std::size_t size : {1u, 15u, 16u, 17u, 1000u, 4099u}) {
            const std::vector<float> values = vector_of_many_sizes(size, 10 + size);
            const std::vector<float> start = vector_of_many_sizes(size, 20 + size);
            const Bytes bytes = encode(id, values);
            std::vector<float> fused = start;
            ASSERT_TRUE(decode_accumulate(id, bytes, 0.37f, fused));
            std::vector<float> decoded(size);
            ASSERT_TRUE(decode(id, bytes, decoded));
            std::vector<float> plain = start;
            tensor::reference::add_weighted(plain, decoded, 0.37f);
            EXPECT_EQ(std::memcmp(fused.data(), plain.data(), size * 4), 0) << to_string(id);
        }
    }
}

}  // namespace
}  // namespace dedloc::codec
