#include "dedloc/codec/topk.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

#include "dedloc/codec/codec.h"
#include "dedloc/codec/codec_testing.h"

namespace dedloc::codec {
namespace {

TEST(TopK, the_layout_is_what_the_header_says) {
    // 5 of a chunk of 8 with kept = 2,560 of 4,096.
    const TopK codec{2560};
    const std::vector<float> values = {0, 4, -1, 0.5f, 0, -4, 1, 1};
    const Bytes bytes = *codec.encode(values);
    ASSERT_EQ(bytes.size(), codec.encoded_size(8));
    ASSERT_EQ(bytes.size(), 8u + 8 + 2);
    float magnitudes[2] = {};
    std::memcpy(magnitudes, bytes.data(), 8);
    EXPECT_EQ(magnitudes[0], 1.0f);
    EXPECT_EQ(magnitudes[1], 4.0f);
    // Places 1, 2, 5, 6, 7 in 12 bits each; codes 10 01 11 00 00 from the lowest bit.
    EXPECT_EQ(Bytes(bytes.begin() + 8, bytes.end()),
              (Bytes{0x01, 0x20, 0x00, 0x05, 0x60, 0x00, 0x07, 0x00, 0b00110110, 0}));
    std::vector<float> back(8);
    ASSERT_TRUE(codec.decode(bytes, back));
    EXPECT_EQ(back, (std::vector<float>{0, 4, -1, 0, 0, -4, 1, 1}));
    EXPECT_EQ(TopK{}.encoded_size(4096), 120u);
    EXPECT_EQ(TopK{}.encoded_size(4097), 120u + 8 + 2 + 1);
    EXPECT_EQ(TopK{}.encoded_size(0), 0u);
}

TEST(TopK, exactly_the_largest_are_kept_and_ties_go_to_the_first) {
    for (const std::size_t size : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 9000u}) {
        for (const bool ties : {false, true}) {
            std::vector<float> values = normal_vector(size, size);
            for (float& value : values)
                if (ties) value = std::round(value * 2);
            std::vector<float> back(size);
            ASSERT_TRUE(TopK{}.decode(*TopK{}.encode(values), back));
            for (std::size_t first = 0; first < size; first += topk_chunk) {
                const std::size_t count = std::min(topk_chunk, size - first);
                std::vector<std::size_t> order(count);
                std::iota(order.begin(), order.end(), first);
                std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                    return std::abs(values[a]) > std::abs(values[b]);
                });
                const std::size_t kept = (64 * count + 4095) / 4096;
                for (std::size_t i = 0; i < count; ++i) {
                    const float wanted = values[order[i]];
                    const float got = back[order[i]];
                    if (i >= kept) {
                        ASSERT_EQ(got, 0.0f) << size << " " << i;
                    } else if (wanted != 0) {
                        ASSERT_EQ(std::signbit(got), std::signbit(wanted)) << size << " " << i;
                        ASSERT_NE(got, 0.0f);
                    }
                }
            }
        }
    }
}

TEST(TopK, equal_magnitudes_come_back_exactly) {
    std::vector<float> values(5000, 0.0f);
    for (std::size_t i = 0; i < 5000; i += 97) values[i] = i % 2 == 0 ? 0.1f : -0.1f;
    std::vector<float> back(values.size());
    ASSERT_TRUE(TopK{}.decode(*TopK{}.encode(values), back));
    EXPECT_EQ(back, values);
    const std::vector<float> zeros(5000, 0.0f);
    ASSERT_TRUE(TopK{}.decode(*TopK{}.encode(zeros), back));
    EXPECT_EQ(back, zeros);
}

TEST(TopK, sums_get_what_decoding_gives) {
    const std::vector<float> values = normal_vector(10000, 3);
    const Bytes bytes = *TopK{}.encode(values);
    std::vector<float> back(values.size());
    ASSERT_TRUE(TopK{}.decode(bytes, back));
    std::vector<float> sum(values.size(), 0.25f);
    ASSERT_TRUE(TopK{}.decode_accumulate(bytes, 0.7f, sum));
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const float product = 0.7f * back[i];
        EXPECT_EQ(sum[i], 0.25f + product);
    }
}

TEST(TopK, bytes_that_encode_cannot_write_are_refused_and_add_nothing) {
    const std::vector<float> values = normal_vector(5000, 4);
    const Bytes bytes = *TopK{}.encode(values);
    const auto refused = [&](const Bytes& wrong, float weight = 1.0f) {
        std::vector<float> sum(values.size(), 1.0f);
        const bool ok = TopK{}.decode_accumulate(wrong, weight, sum).has_value();
        EXPECT_TRUE(ok || sum == std::vector<float>(values.size(), 1.0f));
        return !ok;
    };
    EXPECT_FALSE(refused(bytes));
    const auto with_float = [&](std::size_t at, float value) {
        Bytes wrong = bytes;
        std::memcpy(wrong.data() + at, &value, 4);
        return wrong;
    };
    EXPECT_TRUE(refused(with_float(4, NAN)));
    EXPECT_TRUE(refused(with_float(0, NAN)));
    EXPECT_TRUE(refused(with_float(4, INFINITY)));
    EXPECT_TRUE(refused(with_float(0, -1.0f)));
    EXPECT_TRUE(refused(with_float(0, 1e30f))) << "small above large";
    EXPECT_TRUE(refused(with_float(120 + 4, NAN))) << "in the second chunk: nothing of the first";
    EXPECT_TRUE(refused(with_float(4, 3e38f), 2.0f));
    EXPECT_TRUE(refused(bytes, NAN));
    Bytes wrong = bytes;
    std::swap(wrong[8], wrong[11]);  // places no longer ascend, or repeat
    wrong[9] = wrong[12] = 0;
    EXPECT_TRUE(refused(wrong));
    wrong = bytes;
    wrong[120 + 8 + 1] = 0xff;  // a place beyond the last chunk of 904
    EXPECT_TRUE(refused(wrong));
    wrong = bytes;
    wrong.pop_back();
    EXPECT_TRUE(refused(wrong));
    std::vector<float> bad = values;
    bad[7] = -INFINITY;
    EXPECT_FALSE(TopK{}.encode(bad));
}

}  // namespace
}  // namespace dedloc::codec
