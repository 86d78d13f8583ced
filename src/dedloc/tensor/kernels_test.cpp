#include "dedloc/tensor/kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/base/random.h"
#include "dedloc/tensor/half.h"
#include "dedloc/tensor/kernels_testing.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dedloc::tensor {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Every sign and exponent with fractions at and around every rounding boundary, and random ones.
std::vector<float> many_floats(std::uint64_t seed) {
    Random random(seed);
    std::vector<float> floats;
    for (std::uint32_t top = 0; top < 512; ++top) {
        for (std::uint32_t cut = 0; cut < 23; ++cut) {
            for (const int delta : {-1, 0, 1}) {
                floats.push_back(from_bits(
                    (top << 23) | (((1u << cut) + static_cast<std::uint32_t>(delta)) & 0x7fffffu)));
                const auto high = static_cast<std::uint32_t>(random.next()) << cut << 1;
                floats.push_back(from_bits(
                    (top << 23) |
                    ((high + (1u << cut) + static_cast<std::uint32_t>(delta)) & 0x7fffffu)));
            }
        }
        for (int i = 0; i < 200; ++i) {
            floats.push_back(
                from_bits((top << 23) | (static_cast<std::uint32_t>(random.next()) & 0x7fffffu)));
        }
    }
    return floats;
}

Bytes every_word() {
    Bytes bytes;
    for (std::uint32_t word = 0; word < 65536; ++word) {
        bytes.push_back(static_cast<std::uint8_t>(word));
        bytes.push_back(static_cast<std::uint8_t>(word >> 8));
    }
    return bytes;
}

TEST(Half, known_values) {
    EXPECT_EQ(half_from_float(0.0f), 0x0000);
    EXPECT_EQ(half_from_float(-0.0f), 0x8000);
    EXPECT_EQ(half_from_float(1.0f), 0x3c00);
    EXPECT_EQ(half_from_float(-2.0f), 0xc000);
    EXPECT_EQ(half_from_float(65504.0f), 0x7bff);
    EXPECT_EQ(half_from_float(65519.996f), 0x7bff);
    EXPECT_EQ(half_from_float(65520.0f), 0x7c00);
    EXPECT_EQ(half_from_float_saturating(65520.0f), 0x7bff);
    EXPECT_EQ(half_from_float_saturating(-3e38f), 0xfbff);
    EXPECT_EQ(half_from_float_saturating(-INFINITY), 0xfc00);
    EXPECT_EQ(half_from_float(0x1p-24f), 0x0001);
    EXPECT_EQ(half_from_float(0x1p-25f), 0x0000);               // a tie goes to even
    EXPECT_EQ(half_from_float(from_bits(0x33000001)), 0x0001);  // just above the tie
    EXPECT_EQ(half_from_float(0x1.8p-24f), 0x0002);
    EXPECT_EQ(half_from_float(0x1p-14f), 0x0400);
    EXPECT_EQ(half_from_float(1.0f + 0x1p-11f), 0x3c00);
    EXPECT_EQ(half_from_float(1.0f + 0x1.8p-10f), 0x3c02);
    EXPECT_EQ(half_from_float(-NAN), half_nan);
    EXPECT_EQ(float_from_half(0x0001), 0x1p-24f);
    EXPECT_EQ(float_from_half(0x03ff), 1023 * 0x1p-24f);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(float_from_half(0xfe01)), float_nan_bits);
    EXPECT_EQ(bfloat16_from_float(1.0f), 0x3f80);
    EXPECT_EQ(bfloat16_from_float(from_bits(0x3f808000)), 0x3f80);
    EXPECT_EQ(bfloat16_from_float(from_bits(0x3f818000)), 0x3f82);
    EXPECT_EQ(bfloat16_from_float(from_bits(0x7f7fffff)), 0x7f80);
    EXPECT_EQ(bfloat16_from_float(from_bits(0xffc12345)), bfloat16_nan);
    EXPECT_EQ(bfloat16_from_float_saturating(from_bits(0x7f7fffff)), 0x7f7f);
    EXPECT_EQ(bfloat16_from_float_saturating(from_bits(0xff7fffff)), 0xff7f);
    EXPECT_EQ(bfloat16_from_float_saturating(-INFINITY), 0xff80);
    EXPECT_EQ(bfloat16_from_float_saturating(-NAN), bfloat16_nan);
}

TEST(Half, every_half_survives_the_way_to_float_and_back) {
    for (std::uint32_t word = 0; word < 65536; ++word) {
        const auto half = static_cast<std::uint16_t>(word);
        const bool is_nan = (half & 0x7fff) > 0x7c00;
        ASSERT_EQ(half_from_float(float_from_half(half)), is_nan ? half_nan : half) << word;
        const bool bf_nan = (half & 0x7fff) > 0x7f80;
        ASSERT_EQ(bfloat16_from_float(float_from_bfloat16(half)), bf_nan ? bfloat16_nan : half);
    }
}

TEST(Half, the_nearest_half_is_chosen) {
    // An independent judge: among the half below and above, by distance in double precision.
    Random random(11);
    for (int i = 0; i < 200000; ++i) {
        const auto value = static_cast<float>(
            random.normal() * std::ldexp(1.0, static_cast<int>(random.between(-27, 14))));
        const std::uint16_t half = half_from_float(value);
        if ((half & 0x7fff) >= 0x7bff) continue;
        const double distance = std::abs(static_cast<double>(float_from_half(half)) - value);
        for (const int step : {-1, 1}) {
            if ((half & 0x7fff) == 0 && step < 0) continue;
            const auto other = static_cast<std::uint16_t>(half + step);
            const double other_distance =
                std::abs(static_cast<double>(float_from_half(other)) - value);
            ASSERT_LE(distance, other_distance) << value;
            if (distance == other_distance) {
                ASSERT_EQ(half & 1, 0) << value;
            }
        }
    }
}

TEST(Kernels, decoding_equals_the_reference_for_all_words) {
    const Bytes words = every_word();
    std::vector<float> wanted(65536);
    std::vector<float> got(65536);
    on_every_target([&] {
        reference::floats_from_halves(words, wanted);
        floats_from_halves(words, got);
        EXPECT_TRUE(same_bits(got, wanted));
        reference::floats_from_bfloat16(words, wanted);
        floats_from_bfloat16(words, got);
        EXPECT_TRUE(same_bits(got, wanted));
    });
}

TEST(Kernels, encoding_equals_the_reference_for_many_floats) {
    const std::vector<float> floats = many_floats(5);
    Bytes wanted(2 * floats.size());
    Bytes got(2 * floats.size());
    on_every_target([&] {
        reference::halves_from_floats(floats, wanted);
        halves_from_floats(floats, got);
        EXPECT_EQ(got, wanted);
        reference::halves_from_floats_saturating(floats, wanted);
        halves_from_floats_saturating(floats, got);
        EXPECT_EQ(got, wanted);
        reference::bfloat16_from_floats(floats, wanted);
        bfloat16_from_floats(floats, got);
        EXPECT_EQ(got, wanted);
        for (const float factor : {1.0f, 0x1p-7f, 0.3f, 0x1p+20f}) {
            reference::halves_from_floats_saturating(floats, wanted, factor);
            halves_from_floats_saturating(floats, got, factor);
            EXPECT_EQ(got, wanted) << factor;
            reference::bfloat16_from_floats_saturating(floats, wanted, factor);
            bfloat16_from_floats_saturating(floats, got, factor);
            EXPECT_EQ(got, wanted) << factor;
        }
    });
}

TEST(Kernels, the_largest_magnitude_is_found_wherever_it_is) {
    Random random(29);
    on_every_target([&] {
        for (std::size_t size = 0; size < 300; size += size < 150 ? 1 : 37) {
            std::vector<float> x(size);
            for (float& value : x) value = static_cast<float>(random.normal());
            if (size > 0) x[random.below(size)] = -9.0f;
            Bytes bytes(4 * size);
            scaled_copy(x, bytes, 0.5f);
            Bytes halves(2 * size);
            halves_from_floats(x, halves);
            Bytes bfloat16(2 * size);
            bfloat16_from_floats(x, bfloat16);
            EXPECT_EQ(largest_magnitude_of_floats(bytes), size > 0 ? 4.5f : 0.0f);
            EXPECT_EQ(largest_magnitude_of_halves(halves), size > 0 ? 9.0f : 0.0f);
            EXPECT_EQ(largest_magnitude_of_bfloat16(bfloat16), size > 0 ? 9.0f : 0.0f);
            for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
                if (size == 0) continue;
                x[random.below(size)] = bad;
                scaled_copy(x, bytes, 1.0f);
                halves_from_floats(x, halves);
                bfloat16_from_floats(x, bfloat16);
                EXPECT_EQ(largest_magnitude_of_floats(bytes), INFINITY);
                EXPECT_EQ(largest_magnitude_of_halves(halves), INFINITY);
                EXPECT_EQ(largest_magnitude_of_bfloat16(bfloat16), INFINITY);
                EXPECT_EQ(reference::largest_magnitude_of_halves(halves), INFINITY);
            }
        }
    });
}

TEST(Kernels, arithmetic_equals_the_reference_for_every_length) {
    Random random(17);
    on_every_target([&] {
        for (std::size_t size = 0; size < 300; size += size < 70 ? 1 : 37) {
            std::vector<float> x(size);
            std::vector<float> y(size);
            for (std::size_t i = 0; i < size; ++i) {
                const int exponent = static_cast<int>(random.between(-140, 30));
                x[i] = static_cast<float>(std::ldexp(random.normal(), exponent));
                y[i] = static_cast<float>(std::ldexp(random.normal(), exponent));
            }
            const auto weight = static_cast<float>(random.normal());
            std::vector<float> got = y;
            std::vector<float> wanted = y;
            add_weighted(got, x, weight);
            reference::add_weighted(wanted, x, weight);
            EXPECT_TRUE(same_bits(got, wanted)) << size;
            scale(got, weight);
            reference::scale(wanted, weight);
            EXPECT_TRUE(same_bits(got, wanted)) << size;
            divide(got, weight);
            reference::divide(wanted, weight);
            EXPECT_TRUE(same_bits(got, wanted)) << size;
            EXPECT_EQ(sum_of_squares(x), reference::sum_of_squares(x)) << size;
            EXPECT_EQ(dot(x, wanted), reference::dot(x, wanted)) << size;
            EXPECT_EQ(dot(x, x), sum_of_squares(x)) << size;
        }
    });
}

TEST(Kernels, fused_decoding_gives_the_bits_of_decoding_first) {
    Random random(23);
    const std::size_t size = 1003;
    std::vector<float> x(size);
    for (float& value : x) value = static_cast<float>(random.normal() * 1e-3);
    Bytes words(2 * size);
    std::vector<float> decoded(size);
    on_every_target([&] {
        std::vector<float> fused(size, 0.25f);
        std::vector<float> plain(size, 0.25f);
        halves_from_floats(x, words);
        floats_from_halves(words, decoded);
        add_weighted_halves(fused, words, 0.3f);
        add_weighted(plain, decoded, 0.3f);
        EXPECT_TRUE(same_bits(fused, plain));
        bfloat16_from_floats(x, words);
        floats_from_bfloat16(words, decoded);
        add_weighted_bfloat16(fused, words, -0.7f);
        add_weighted(plain, decoded, -0.7f);
        EXPECT_TRUE(same_bits(fused, plain));
        Bytes unaligned(4 * size + 1);
        std::memcpy(unaligned.data() + 1, x.data(), 4 * size);
        add_weighted_floats(fused, ByteView(unaligned).subspan(1), 1.7f);
        add_weighted(plain, x, 1.7f);
        EXPECT_TRUE(same_bits(fused, plain));
    });
}

TEST(Kernels, sums_and_products_are_rounded_one_by_one) {
    // With a fused multiply-add the result would be 2^-24 instead of 0.
    const float x = 1.0f + 0x1p-12f;
    const float rounded = x * x;
    on_every_target([&] {
        std::vector<float> accumulator(35, -rounded);
        add_weighted(accumulator, std::vector<float>(35, x), x);
        for (const float value : accumulator) EXPECT_EQ(value, 0.0f);
    });
}

TEST(Kernels, one_infinity_or_nan_anywhere_is_found) {
    on_every_target([&] {
        for (const std::size_t size : {1u, 5u, 16u, 33u, 5000u}) {
            std::vector<float> x(size, std::numeric_limits<float>::max());
            EXPECT_TRUE(all_finite(x));
            for (std::size_t i = 0; i<size; i += size> 100 ? 97 : 1) {
                for (const float bad : {INFINITY, -INFINITY, NAN, from_bits(0xff800001)}) {
                    const float saved = std::exchange(x[i], bad);
                    EXPECT_FALSE(all_finite(x)) << size << " " << i;
                    EXPECT_FALSE(reference::all_finite(x));
                    x[i] = saved;
                }
            }
        }
        EXPECT_TRUE(all_finite({}));
    });
}

#if defined(__x86_64__)
TEST(Kernels, a_thread_that_flushes_denormals_or_rounds_up_gets_the_same_bits) {
    const std::vector<float> floats = many_floats(5);
    Bytes wanted(2 * floats.size());
    Bytes got(2 * floats.size());
    const std::vector<float> tiny(40, 1e-40f);
    on_every_target([&] {
        std::vector<float> a(40, 3e-40f);
        std::vector<float> b = a;
        reference::halves_from_floats(floats, wanted);
        add_weighted(a, tiny, 0.3f);
        const unsigned saved = _mm_getcsr();
        _mm_setcsr(saved | 0x8040u | 0x4000u);  // FTZ, DAZ, round up
        halves_from_floats(floats, got);
        add_weighted(b, tiny, 0.3f);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved);
        EXPECT_EQ(after & 0xe040u, 0xc040u) << "the thread's own settings come back";
        EXPECT_EQ(got, wanted);
        EXPECT_TRUE(same_bits(a, b));
        EXPECT_NE(b[0], 3e-40f);
    });
}
#endif

}  // namespace
}  // namespace dedloc::tensor
