#include "dedloc/robust/projections.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/tensor/each_target.h"

namespace dedloc::robust {
namespace {

Digest seed_of(std::uint8_t first) {
    Bytes bytes(32, 9);
    bytes[0] = first;
    return Digest::from(bytes).value();
}

std::vector<float> normals(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> numbers(count);
    for (float& each : numbers) each = static_cast<float>(random.normal());
    return numbers;
}

Projections::Sums sums_of(const Projections& projections,
                          std::span<const float> x,
                          std::uint64_t offset = 0) {
    Projections::Sums sums;
    const std::vector<float> zero(x.size(), 0.0f);
    projections.add(offset, x, zero, sums);
    return sums;
}

double length_of(std::span<const float> x) {
    double squares = 0;
    for (const float each : x) squares += static_cast<double>(each) * static_cast<double>(each);
    return std::sqrt(squares);
}

TEST(Projections, TellALengthWithinAFewTenthsOverManySeeds) {
    const std::vector<float> x = normals(5000, 3);
    double sum = 0;
    for (std::uint8_t seed = 0; seed < 60; ++seed) {
        const double told = estimated_length(sums_of(Projections(seed_of(seed)), x).projected);
        EXPECT_GT(told, length_of(x) / 4);
        sum += told * told;
    }
    EXPECT_NEAR(std::sqrt(sum / 60), length_of(x), 0.1 * length_of(x));
}

TEST(Projections, AreLinear) {
    const std::vector<float> x = normals(300, 3);
    std::vector<float> twice = x;
    for (float& each : twice) each *= 2;
    const Projections projections(seed_of(1));
    for (std::size_t k = 0; k < projections_count; ++k)
        EXPECT_NEAR(sums_of(projections, twice).projected[k],
                    2 * sums_of(projections, x).projected[k],
                    1e-4);
}

TEST(Projections, DifferBySeedByRowAndByPlace) {
    const std::vector<float> ones(640, 1.0f);
    const Projected one = sums_of(Projections(seed_of(1)), ones).projected;
    EXPECT_NE(one, sums_of(Projections(seed_of(2)), ones).projected);
    EXPECT_NE(one, sums_of(Projections(seed_of(1)), ones, 640).projected);
    EXPECT_NE(one[0], one[1]);
}

TEST(Projections, SignsAreBalancedInEveryPlaceOfAWord) {
    // Each element alone: its sign over many seeds.
    for (std::size_t place : {0u, 31u, 32u, 63u, 64u, 100u}) {
        double sum = 0;
        for (int seed = 0; seed < 200; ++seed) {
            std::vector<float> one(128, 0.0f);
            one[place] = 1;
            const auto digest = seed_of(static_cast<std::uint8_t>(seed));
            for (const double each : sums_of(Projections(digest), one).projected) {
                EXPECT_EQ(std::abs(each), 1.0);
                sum += each;
            }
        }
        EXPECT_LT(std::abs(sum), 6 * std::sqrt(1600.0)) << place;
    }
}

TEST(Projections, MeasureTheDistanceFromTheBaseOnTheWay) {
    const std::vector<float> x = {1, 2, 3};
    const std::vector<float> base = {1, 0, -1};
    Projections::Sums sums;
    Projections(seed_of(1)).add(0, x, base, sums);
    EXPECT_DOUBLE_EQ(sums.squared_distance, 20);
}

TEST(Projections, GiveTheSameBitsOnEveryInstructionSet) {
    const std::vector<float> x = normals(9001, 4);
    const std::vector<float> base = normals(9001, 5);
    std::optional<Projections::Sums> first;
    tensor::for_each_target([&](const char* target) {
        Projections::Sums sums;
        Projections(seed_of(3)).add(77, x, base, sums);
        if (!first) first = sums;
        EXPECT_EQ(sums.projected, first->projected) << target;
        EXPECT_EQ(sums.squared_distance, first->squared_distance) << target;
    });
}

}  // namespace
}  // namespace dedloc::robust
