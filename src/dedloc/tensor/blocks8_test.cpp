#include "dedloc/tensor/blocks8.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/tensor/kernels.h"
#include "dedloc/tensor/kernels_testing.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dedloc::tensor {
namespace {

Bytes encoded(std::span<const float> x, float factor = 1.0f) {
    Bytes blocks(blocks8_size(x.size()));
    blocks8_from_floats(x, blocks, factor);
    return blocks;
}

std::vector<float> decoded(ByteView blocks, std::size_t count) {
    std::vector<float> x(count);
    floats_from_blocks8(blocks, x);
    return x;
}

// Vectors of every kind that has an edge: one-sided, constant, tiny, huge, ties, outliers.
std::vector<float> vector_of_kind(int kind, std::size_t size, Random& random) {
    std::vector<float> x(size);
    for (float& value : x) {
        const double normal = random.normal();
        switch (kind) {
            case 0:
                value = static_cast<float>(normal);
                break;
            case 1:
                value = static_cast<float>(std::abs(normal) + 1);
                break;
            case 2:
                value = static_cast<float>(-std::abs(normal) * 1e-20);
                break;
            case 3:
                value = -0.25f;
                break;
            case 4:
                value = static_cast<float>(random.between(-255, 255)) * 0.5f;
                break;
            case 5:
                value = static_cast<float>(std::ldexp(normal, -int(random.below(140))));
                break;
            case 6:
                value = static_cast<float>(normal * 1e38);
                break;
            case 7:
                value = random.below(50) == 0 ? static_cast<float>(normal) : -0.0f;
                break;
            case 8:
                value = static_cast<float>(normal * 1e-42);
                break;
            default:
                value = static_cast<float>(random.between(0, 255) - 100);
                break;
        }
        if (!std::isfinite(value)) value = std::numeric_limits<float>::lowest();
    }
    return x;
}
constexpr int kinds = 10;

TEST(Blocks8, the_layout_is_what_the_header_says) {
    // lo = -1, hi = 3: scale 4/255 = 0x3c808081, rounded up to 0x3c808100; zero 255/4 -> 64.
    const std::vector<float> x = {-1.0f, 0.0f, 3.0f};
    EXPECT_EQ(encoded(x), (Bytes{64, 0x81, 0x80, 0x3c, 0, 64, 255}));
    EXPECT_EQ(blocks8_size(0), 0u);
    EXPECT_EQ(blocks8_size(1), 5u);
    EXPECT_EQ(blocks8_size(1024), 1028u);
    EXPECT_EQ(blocks8_size(1025), 1033u);
    const std::vector<float> back = decoded(encoded(x), 3);
    EXPECT_EQ(back[1], 0.0f);
    EXPECT_NEAR(back[0], -1, 4.0 / 255 / 2);
    EXPECT_NEAR(back[2], 3, 4.0 / 255 / 2);
}

TEST(Blocks8, every_target_writes_the_bytes_of_the_reference) {
    on_every_target([&] {
        Random random(41);
        for (int kind = 0; kind < kinds; ++kind) {
            for (const std::size_t size :
                 {0u, 1u, 15u, 16u, 17u, 127u, 129u, 1023u, 1024u, 3333u}) {
                for (const float factor : {1.0f, 0x1p-5f, -0.3f, 3e8f}) {
                    const std::vector<float> x = vector_of_kind(kind, size, random);
                    Bytes wanted(blocks8_size(size));
                    reference::blocks8_from_floats(x, wanted, factor);
                    ASSERT_EQ(encoded(x, factor), wanted) << kind << " " << size << " " << factor;
                }
            }
        }
    });
}

TEST(Blocks8, every_target_reads_what_the_reference_reads_from_any_bytes) {
    on_every_target([&] {
        Random random(43);
        for (const std::size_t size : {1u, 17u, 500u, 1024u, 2100u}) {
            for (int turn = 0; turn < 40; ++turn) {
                Bytes blocks(blocks8_size(size));
                for (auto& byte : blocks) byte = static_cast<std::uint8_t>(random.next());
                std::vector<float> wanted(size);
                reference::floats_from_blocks8(blocks, wanted);
                ASSERT_TRUE(same_bits(decoded(blocks, size), wanted));
                float largest = 0;
                for (const float value : wanted) {
                    const bool is_number = !std::isnan(value);
                    ASSERT_TRUE(!is_number || std::isfinite(value));
                    largest = is_number ? std::max(largest, std::abs(value)) : INFINITY;
                    if (!is_number) break;
                }
                EXPECT_LE(largest, largest_magnitude_of_blocks8(blocks));
                if (!std::isfinite(largest)) continue;
                std::vector<float> sum(size, 0.1f);
                std::vector<float> wanted_sum = sum;
                add_weighted_blocks8(sum, blocks, 0.7f);
                reference::add_weighted_blocks8(wanted_sum, blocks, 0.7f);
                ASSERT_TRUE(same_bits(sum, wanted_sum));
            }
        }
    });
}

TEST(Blocks8, the_error_is_at_most_half_a_step_and_zero_is_exact) {
    Random random(47);
    for (int kind = 0; kind < kinds; ++kind) {
        if (kind == 6) continue;  // cut at 2^126, below
        const std::vector<float> x = vector_of_kind(kind, 5000, random);
        const std::vector<float> back = decoded(encoded(x), x.size());
        for (std::size_t block = 0; block < x.size(); block += block8_elements) {
            double lo = 0;
            double hi = 0;
            const std::size_t end = std::min(x.size(), block + block8_elements);
            for (std::size_t i = block; i < end; ++i) {
                lo = std::min<double>(lo, x[i]);
                hi = std::max<double>(hi, x[i]);
            }
            const double bound = std::max((hi - lo) / 255 * 0.501, 0x1p-100);
            for (std::size_t i = block; i < end; ++i) {
                ASSERT_LE(std::abs(static_cast<double>(back[i]) - x[i]), bound) << kind;
                if (x[i] == 0.0f) {
                    ASSERT_EQ(back[i], 0.0f);
                }
            }
        }
    }
}

TEST(Blocks8, one_bad_number_makes_its_block_bad_and_no_other) {
    for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
        on_every_target([&] {
            for (const std::size_t place : {0u, 7u, 1023u, 1024u, 2047u, 2048u, 2999u}) {
                std::vector<float> x(3000, 0.5f);
                x[place] = bad;
                const Bytes blocks = encoded(x);
                const std::vector<float> back = decoded(blocks, x.size());
                for (std::size_t i = 0; i < x.size(); ++i)
                    ASSERT_EQ(std::isnan(back[i]), i / 1024 == place / 1024) << place << " " << i;
                EXPECT_EQ(largest_magnitude_of_blocks8(blocks), INFINITY);
                Bytes wanted(blocks.size());
                reference::blocks8_from_floats(x, wanted);
                EXPECT_EQ(blocks, wanted);
            }
        });
    }
}

TEST(Blocks8, huge_numbers_stay_finite_and_products_that_overflow_are_seen) {
    const float largest = std::numeric_limits<float>::max();
    const std::vector<float> x = {largest, -largest, 0x1p125f};
    const std::vector<float> back = decoded(encoded(x), x.size());
    EXPECT_NEAR(back[0] / 0x1p126, 1, 0.01);
    EXPECT_NEAR(back[1] / 0x1p126, -1, 0.01);
    EXPECT_NEAR(back[2] / 0x1p125, 1, 0.01);
    EXPECT_TRUE(std::isnan(decoded(encoded(x, 2.0f), x.size())[2])) << "infinity times a number";
}

#if defined(__x86_64__)
TEST(Blocks8, a_thread_with_other_settings_gets_the_same_bits) {
    Random random(53);
    for (const int kind : {0, 4, 8}) {
        const std::vector<float> x = vector_of_kind(kind, 2500, random);
        Bytes wanted(blocks8_size(x.size()));
        reference::blocks8_from_floats(x, wanted, 0x1p-3f);
        std::vector<float> wanted_sum(x.size(), 3e-40f);
        reference::add_weighted_blocks8(wanted_sum, wanted, 0.3f);
        on_every_target([&] {
            std::vector<float> sum(x.size(), 3e-40f);
            const unsigned saved = _mm_getcsr();
            _mm_setcsr(saved | 0x8040u | 0x4000u);  // FTZ, DAZ, round up
            const Bytes blocks = encoded(x, 0x1p-3f);
            add_weighted_blocks8(sum, blocks, 0.3f);
            _mm_setcsr(saved);
            EXPECT_EQ(blocks, wanted);
            EXPECT_TRUE(same_bits(sum, wanted_sum));
        });
    }
}
#endif

}  // namespace
}  // namespace dedloc::tensor
