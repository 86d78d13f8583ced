#include "dedloc/tensor/two_means.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/tensor/each_target.h"

namespace dedloc::tensor {
namespace {

std::vector<float> magnitudes_of(std::size_t size, std::uint64_t kind, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> magnitudes(size);
    for (float& each : magnitudes) {
        const auto normal = static_cast<float>(std::abs(random.normal()));
        const auto exponent = static_cast<int>(random.below(60)) - 30;
        switch (kind) {
            case 0:
                each = normal;
                break;
            case 1:
                each = std::round(normal * 2);
                break;
            case 2:
                each = std::ldexp(normal, exponent);  // sums are rounded
                break;
            case 3:
                each = normal * 1e-42f;
                break;
            case 4:
                each = 0.1f;
                break;
            default:
                each = 3.0e38f / (1 + normal);
        }
    }
    return magnitudes;
}

TEST(TwoMeans, are_those_of_sums_in_order_on_every_cpu) {
    for (const std::size_t size : {1u, 2u, 7u, 15u, 63u, 64u, 65u, 1000u, 4096u})
        for (std::uint64_t kind = 0; kind < 6; ++kind)
            for (std::uint64_t seed = 0; seed < 10; ++seed) {
                const std::vector<float> magnitudes = magnitudes_of(size, kind, seed + 100 * kind);
                const TwoMeans wanted = reference::two_means(magnitudes);
                for_each_target([&](const char* target) {
                    const TwoMeans found = two_means(magnitudes);
                    ASSERT_EQ(found.border, wanted.border) << size << " " << kind << " " << target;
                    ASSERT_EQ(found.small, wanted.small) << size << " " << kind << " " << target;
                    ASSERT_EQ(found.large, wanted.large) << size << " " << kind << " " << target;
                });
            }
}

TEST(TwoMeans, find_two_heaps) {
    std::vector<float> magnitudes(10, 1.0f);
    magnitudes.insert(magnitudes.end(), 5, 4.0f);
    magnitudes.insert(magnitudes.end(), 5, 6.0f);
    const TwoMeans halves = two_means(magnitudes);
    EXPECT_EQ(halves.small, 1);
    EXPECT_EQ(halves.large, 5);
    EXPECT_EQ(halves.border, 3);
    const std::vector<float> zeros(64, 0.0f);
    EXPECT_EQ(two_means(zeros).large, 0);
}

}  // namespace
}  // namespace dedloc::tensor
