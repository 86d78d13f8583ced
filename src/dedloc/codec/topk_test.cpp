#include "dedloc/codec/topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
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
    ASSERT_EQ(bytes.size(), 8u + 2 + 2);
    float magnitudes[2] = {};
    std::memcpy(magnitudes, bytes.data(), 8);
    EXPECT_EQ(magnitudes[0], 1.0f);
    EXPECT_EQ(magnitudes[1], 4.0f);
    // Places 1, 2, 5, 6, 7: no low bits, and bits 1, 3, 7, 9, 11 of the bitmap; codes 10 01 11 00
    // 00 from the lowest bit.
    EXPECT_EQ(Bytes(bytes.begin() + 8, bytes.end()), (Bytes{0b10001010, 0b1010, 0b00110110, 0}));
    std::vector<float> back(8);
    ASSERT_TRUE(codec.decode(bytes, back));
    EXPECT_EQ(back, (std::vector<float>{0, 4, -1, 0, 0, -4, 1, 1}));
    EXPECT_EQ(TopK{}.encoded_size(4096), 8u + 48 + 16 + 16);
    EXPECT_EQ(TopK{}.encoded_size(4097), 88u + 8 + 1 + 1 + 1);
    EXPECT_EQ(TopK{}.encoded_size(0), 0u);
}

// With low bits: 2 of a chunk of 200 with kept = 32, l = 7.
TEST(TopK, places_have_low_bits_and_a_bitmap) {
    std::vector<float> values(200);
    values[3] = 1;
    values[130] = -1;
    const Bytes bytes = *TopK{32}.encode(values);
    ASSERT_EQ(bytes.size(), 8u + 2 + 1 + 1);
    // 3 and 130 = 128 + 2: 0000011 and 0000010 from the lowest bit; bits 0 and 1 + 1 of the bitmap.
    EXPECT_EQ(Bytes(bytes.begin() + 8, bytes.end()), (Bytes{0x03, 0x01, 0b101, 0b0100}));
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

// The layout of the header, one number and one bit at a time.
class PlainTopK {
  public:
    explicit PlainTopK(std::span<const float> values)
        : values_(values), kept_((64 * values.size() + 4095) / 4096) {
        std::vector<std::size_t> order(values.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(
            order, std::greater<>(), [&](std::size_t i) { return std::abs(values_[i]); });
        order.resize(kept_);
        std::ranges::sort(order);
        places_ = order;
        cluster();
    }
    Bytes bytes() const {
        Bytes out(8);
        const auto small = static_cast<float>(means_[0]);
        const auto large = static_cast<float>(means_[1]);
        std::memcpy(out.data(), &small, 4);
        std::memcpy(out.data() + 4, &large, 4);
        std::vector<bool> lows;
        std::vector<bool> bitmap(kept_ + ((values_.size() - 1) >> 6));
        std::vector<bool> codes;
        for (std::size_t i = 0; i < kept_; ++i) {
            for (int bit = 0; bit < 6; ++bit) lows.push_back(((places_[i] >> bit) & 1) != 0);
            bitmap[(places_[i] >> 6) + i] = true;
            codes.push_back(std::signbit(values_[places_[i]]));
            codes.push_back(magnitude(i) > border_);
        }
        for (const std::vector<bool>& bits : {lows, bitmap, codes}) {
            Bytes packed((bits.size() + 7) / 8);
            for (std::size_t i = 0; i < bits.size(); ++i)
                if (bits[i]) packed[i / 8] |= static_cast<std::uint8_t>(1 << (i % 8));
            out.insert(out.end(), packed.begin(), packed.end());
        }
        return out;
    }

  private:
    double magnitude(std::size_t i) const { return std::abs(double{values_[places_[i]]}); }
    void cluster() {
        for (std::size_t i = 0; i < kept_; ++i) border_ += magnitude(i);
        border_ /= static_cast<double>(kept_);
        for (int round = 0; round < 6; ++round) {
            double sums[2] = {};
            double counts[2] = {};
            for (std::size_t i = 0; i < kept_; ++i) {
                const int half = magnitude(i) > border_ ? 1 : 0;
                sums[half] += magnitude(i);
                ++counts[half];
            }
            for (const int half : {0, 1}) {
                const int from = counts[half] == 0 ? 1 - half : half;
                means_[half] = sums[from] / counts[from];
            }
            border_ = (means_[0] + means_[1]) / 2;
        }
    }

    std::span<const float> values_;
    std::size_t kept_;
    std::vector<std::size_t> places_;
    double border_ = 0;
    double means_[2] = {};
};

// Numbers of very different kinds: normal, rounded, sorted, mostly zero, tiny, of one column.
std::vector<float> odd_chunk(std::size_t size, std::uint64_t kind, std::uint64_t seed) {
    std::vector<float> values = normal_vector(size, seed);
    if (kind == 1)
        for (float& value : values) value = std::round(value * 2);
    if (kind == 2) std::ranges::sort(values);
    for (std::size_t i = 0; i < size; ++i) {
        if (kind == 3 && i % 97 != 0) values[i] = 0;
        if (kind == 4) values[i] *= 1e-42f;
        if (kind == 5 && i % 256 != 3) values[i] *= 1e-3f;
    }
    return values;
}

TEST(TopK, the_bytes_are_those_of_plain_code) {
    for (const std::size_t size : {1u, 64u, 65u, 700u, 4095u, 4096u})
        for (std::uint64_t kind = 0; kind < 6; ++kind)
            for (std::uint64_t seed = 0; seed < 20; ++seed) {
                const std::vector<float> values = odd_chunk(size, kind, 31 * seed + size);
                const Bytes bytes = encode(CodecId::sparse, values);
                ASSERT_EQ(bytes, PlainTopK(values).bytes()) << size << " " << kind << " " << seed;
            }
}

// A guess about a chunk from the one before it changes nothing.
TEST(TopK, chunks_of_very_different_sizes_follow_each_other) {
    std::vector<float> values;
    Bytes wanted;
    for (const float scale : {1.0f, 1e-6f, 1e6f, 0.0f, 1.0f, 0.9f, 1.1f, 1e-44f, 3.0f}) {
        std::vector<float> chunk = normal_vector(topk_chunk, values.size() + 1);
        for (float& value : chunk) value *= scale;
        base::append(wanted, PlainTopK(chunk).bytes());
        values.insert(values.end(), chunk.begin(), chunk.end());
    }
    EXPECT_EQ(encode(CodecId::sparse, values), wanted);
}

TEST(TopK, a_factor_gives_the_bytes_of_multiplying_first) {
    for (const float factor : {0.5f, 0x1p-9f, 0x1p-30f, 2.0f, 0.3f})
        for (std::uint64_t kind = 0; kind < 6; ++kind)
            for (const float scale : {1.0f, 0x1p-100f, 0x1p-118f}) {
                std::vector<float> values = odd_chunk(2 * topk_chunk + 500, kind, 7 + kind);
                for (float& value : values) value *= scale;
                std::vector<float> scaled = values;
                for (float& value : scaled) value *= factor;
                Bytes bytes(sparse_size<sparse_kept>(values.size()));
                encode_into(CodecId::sparse, values, bytes, factor);
                ASSERT_EQ(bytes, encode(CodecId::sparse, scaled)) << factor << " " << kind;
            }
}

TEST(TopK, elements_that_are_added_are_named_and_divided) {
    const std::vector<float> values = normal_vector(9000, 8);
    const Bytes bytes = encode(CodecId::sparse, values);
    std::vector<float> sum(values.size(), 1.0f);
    std::vector<float> wanted = sum;
    std::vector<std::uint64_t> named((values.size() + 63) / 64);
    add_weighted_sparse(sum, bytes, 3.0f, named);
    add_weighted_sparse<sparse_kept>(wanted, bytes, 3.0f);
    EXPECT_EQ(sum, wanted);
    double squares = 0;
    for (const float each : wanted) squares += (double{each} - 1) * (double{each} - 1);
    EXPECT_NEAR(sum_of_squares_sparse(bytes, values.size(), 3.0f) / squares, 1, 1e-5);
    const std::vector<float> added = sum;
    for (const float divisor : {7.0f, 16.0f}) {
        sum = added;
        EXPECT_TRUE(divide_named(sum, named, divisor));
        for (std::size_t i = 0; i < sum.size(); ++i)
            ASSERT_EQ(sum[i], wanted[i] == 1.0f ? 1.0f : wanted[i] / divisor) << i;
    }
    float* const one = &*std::ranges::find_if(sum, [](float each) { return each != 1.0f; });
    *one = INFINITY;
    EXPECT_FALSE(divide_named(sum, named, 7.0f));
}

TEST(TopK, a_chunk_that_is_not_finite_is_seen_by_who_reads_it) {
    for (const std::size_t at : {0u, 4095u, 4096u, 4999u}) {
        std::vector<float> values = normal_vector(5000, 6);
        values[at] = NAN;
        const Bytes bytes = encode(CodecId::sparse, values);
        EXPECT_EQ(magnitude_bound(CodecId::sparse, bytes), INFINITY) << at;
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

// Last chunks of different lengths may be equally many bytes.
TEST(TopK, the_table_of_codecs_bounds_chunks_of_every_length) {
    for (std::size_t size = 1; size <= 4200; size += size < 300 ? 1 : 37) {
        const std::vector<float> values = normal_vector(size, size);
        const Bytes bytes = encode(CodecId::sparse, values);
        std::vector<float> back(size);
        ASSERT_TRUE(decode(CodecId::sparse, bytes, back));
        float largest = 0;
        for (const float value : back) largest = std::max(largest, std::abs(value));
        ASSERT_EQ(magnitude_bound(CodecId::sparse, bytes), largest) << size;
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
    EXPECT_TRUE(refused(with_float(88 + 4, NAN))) << "in the second chunk: nothing of the first";
    EXPECT_TRUE(refused(with_float(4, 3e38f), 2.0f));
    EXPECT_TRUE(refused(bytes, NAN));
    constexpr std::size_t bitmap = 8 + 48;
    Bytes wrong = bytes;
    wrong[bitmap] ^= 1;  // one place more or less
    EXPECT_TRUE(refused(wrong));
    wrong = bytes;
    std::fill_n(wrong.begin() + 8, 48, std::uint8_t{0});
    std::fill_n(wrong.begin() + bitmap, 16, std::uint8_t{0});
    std::fill_n(wrong.begin() + bitmap, 8, std::uint8_t{0xff});  // place 0, 64 times
    EXPECT_TRUE(refused(wrong));
    wrong = bytes;
    const std::size_t last = 88 + 8 + 12 + 3;  // the bitmap's of 15 of 904: 15 + 14 bits
    wrong[last] = 0x80;                        // a bit that stands for no place
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
