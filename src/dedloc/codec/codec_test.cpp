#include "dedloc/codec/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/random.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

std::vector<float> random_vector(std::size_t size, std::uint64_t seed) {
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
        EXPECT_EQ(*codec_from_string(to_string(id)), id);
        EXPECT_EQ(*codec_from_number(static_cast<std::uint64_t>(id)), id);
    }
    EXPECT_EQ(codec_from_string("fp16x").error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(codec_from_string("fp16x").error().message(),
              "'fp16x' is not a codec; use one of fp32, fp16");
    EXPECT_EQ(codec_from_number(200).error().kind(), ErrorKind::unsupported);
    EXPECT_EQ(codec_from_number(std::uint64_t{1} << 32).error().kind(), ErrorKind::unsupported);
}

TEST(Codec, fp32_returns_every_bit) {
    std::vector<float> values = random_vector(1001, 1);
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
    const std::vector<float> values = random_vector(100000, 2);
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

TEST(Codec, decoding_twice_changes_nothing) {
    // The owner applies decode(encode(average)); encoding that again must give the same bytes.
    for (const CodecId id : all_codecs()) {
        const std::vector<float> values = random_vector(777, 4);
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
            EXPECT_EQ(decode_add_weighted(id, wrong, 2.0f, out).error().kind(),
                      ErrorKind::bad_input);
            EXPECT_EQ(out, std::vector<float>(10, 7.0f));
        }
        EXPECT_TRUE(decode(id, Bytes{}, {}));
    }
}

TEST(Codec, the_fused_sum_has_the_bits_of_the_plain_one) {
    for (const CodecId id : all_codecs()) {
        for (const std::size_t size : {1u, 15u, 16u, 17u, 1000u, 4099u}) {
            const std::vector<float> values = random_vector(size, 10 + size);
            const std::vector<float> start = random_vector(size, 20 + size);
            const Bytes bytes = encode(id, values);
            std::vector<float> fused = start;
            ASSERT_TRUE(decode_add_weighted(id, bytes, 0.37f, fused));
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
