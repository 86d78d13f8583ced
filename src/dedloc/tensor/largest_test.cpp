#include "dedloc/tensor/largest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/tensor/each_target.h"

namespace dedloc::tensor {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

std::vector<float> normal(std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> x(size);
    for (float& value : x) value = static_cast<float>(random.normal());
    return x;
}

std::size_t reaching(const std::vector<float>& x, std::uint32_t least) {
    return static_cast<std::size_t>(
        std::ranges::count_if(x, [&](float value) { return magnitude(value) >= least; }));
}

TEST(Largest, as_many_as_asked_for_reach_the_bound_and_it_is_the_same_on_every_cpu) {
    std::vector<std::vector<float>> vectors = {std::vector<float>(4096, 0.0f),
                                               std::vector<float>(4096, -2.5f),
                                               normal(256, 1),
                                               normal(4096, 2),
                                               normal(65'536, 3)};
    vectors.push_back(normal(4096, 4));
    std::ranges::sort(vectors.back());
    vectors.push_back(std::vector<float>(4096, 0.0f));
    for (std::size_t i = 7; i < 4096; i += 256) vectors.back()[i] = 1;  // in one column
    vectors.push_back(normal(4096, 5));
    vectors.back()[77] = -std::numeric_limits<float>::infinity();
    vectors.back()[78] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t v = 0; v < vectors.size(); ++v) {
        const std::vector<float>& x = vectors[v];
        for (const std::size_t rank : {1u, 2u, 64u, 255u, 256u}) {
            std::vector<std::uint32_t> bounds;
            for_each_target([&](const char* target) {
                const LargestBound found = bound_of_largest(x, rank);
                EXPECT_GE(reaching(x, found.bound), rank) << v << " " << target;
                EXPECT_EQ(found.largest, magnitude(std::ranges::max(x, {}, magnitude)))
                    << v << " " << target;
                bounds.push_back(found.bound);
            });
            EXPECT_EQ(std::ranges::count(bounds, bounds.front()), std::ssize(bounds));
        }
    }
}

TEST(Largest, few_more_than_asked_for_reach_the_bound) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const std::vector<float> x = normal(4096, seed);
        EXPECT_LE(reaching(x, bound_of_largest(x, 64).bound), 110u) << seed;
    }
}

TEST(Largest, places_are_those_that_one_look_at_each_finds) {
    for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 100u, 4096u, 4100u, 65'536u}) {
        const std::vector<float> x = normal(size, size);
        for (const float least : {0.0f, 0.5f, 2.0f, 100.0f}) {
            std::vector<std::uint16_t> wanted;
            for (std::size_t i = 0; i < size; ++i)
                if (std::abs(x[i]) >= least) wanted.push_back(static_cast<std::uint16_t>(i));
            for_each_target([&](const char* target) {
                std::vector<std::uint16_t> places(size);
                places.resize(places_not_below(x, magnitude(least), places));
                EXPECT_EQ(places, wanted) << size << " " << least << " " << target;
            });
        }
    }
}

TEST(Largest, what_is_kept_of_places_is_what_sorting_would_keep) {
    for (const std::size_t size : {1u, 16u, 17u, 80u, 100u, 4096u})
        for (const bool ties : {false, true})
            for (const std::size_t rank : {1u, 16u, 64u, 4096u}) {
                if (rank > size) continue;
                std::vector<float> x = normal(2 * size, size);
                for (float& value : x)
                    if (ties) value = std::round(value);
                std::vector<std::uint16_t> all(size);
                for (std::size_t i = 0; i < size; ++i)
                    all[i] = static_cast<std::uint16_t>(2 * i + i % 2);
                std::vector<std::uint16_t> wanted = all;
                std::ranges::stable_sort(
                    wanted, std::greater<>(), [&](std::uint16_t at) { return magnitude(x[at]); });
                wanted.resize(rank);
                std::ranges::sort(wanted);
                for_each_target([&](const char* target) {
                    std::vector<std::uint16_t> places = all;
                    const std::uint32_t least = keep_largest(x, places, rank);
                    places.resize(rank);
                    ASSERT_EQ(places, wanted) << size << " " << rank << " " << target;
                    for (const std::uint16_t at : all) {
                        const bool kept = std::ranges::binary_search(wanted, at);
                        ASSERT_TRUE(kept ? magnitude(x[at]) >= least : magnitude(x[at]) <= least);
                    }
                });
            }
}

}  // namespace
}  // namespace dedloc::tensor
