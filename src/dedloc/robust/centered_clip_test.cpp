#include "dedloc/robust/centered_clip.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/robust/clip_kernels.h"
#include "dedloc/robust/medians.h"
#include "dedloc/robust/vectors_testing.h"
#include "dedloc/tensor/each_target.h"

namespace dedloc::robust {
namespace {

using Vectors = std::vector<std::vector<float>>;

// `liars` of the members send -1000 times what they have.
Vectors drawn_vectors(std::size_t members, std::size_t elements, std::size_t liars) {
    Random random(7 * members + elements);
    std::vector<double> centre(elements);
    for (double& each : centre) each = 0.3 * random.normal();
    Vectors vectors(members, std::vector<float>(elements));
    for (std::size_t m = 0; m < members; ++m) {
        const double factor = m < liars ? -1000 : 1;
        for (std::size_t i = 0; i < elements; ++i)
            vectors[m][i] = static_cast<float>(factor * (centre[i] + 0.1 * random.normal()));
    }
    return vectors;
}

std::vector<float> clip_of(const Vectors& vectors,
                           const std::vector<double>& weights,
                           const ClipOptions& options,
                           ClipReport* report = nullptr) {
    std::vector<float> out(vectors.front().size());
    const ClipReport made = centered_clip(VectorInputs(views_of(vectors)), weights, options, out);
    if (report != nullptr) *report = made;
    return out;
}

double distance_of(std::span<const float> a, std::span<const float> b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    return std::sqrt(squares);
}

TEST(CenteredClip, GivesWhatAnIndependentProgramOfTheFormulaGives) {
    std::ifstream file(std::string(DEDLOC_TEST_DATA) + "/vectors/robust/centered_clip.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& each : golden["cases"]) {
        SCOPED_TRACE(each["name"].get<std::string>());
        const auto vectors = each["vectors"].get<Vectors>();
        const auto expected = each["result"].get<std::vector<double>>();
        ClipReport report;
        const std::vector<float> out = clip_of(vectors,
                                               each["weights"].get<std::vector<double>>(),
                                               {.tau = each["tau"].get<double>()},
                                               &report);
        ASSERT_EQ(out.size(), expected.size());
        for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_NEAR(static_cast<double>(out[i]), expected[i], 1e-6) << "element " << i;
        EXPECT_LE(report.iterations, each["iterations"].get<std::uint32_t>() + 1);
    }
}

TEST(CenteredClip, FollowsTheReadableReferenceForEveryNumberOfMembers) {
    for (const std::size_t members : {1, 2, 3, 5, 16, 33, 64}) {
        SCOPED_TRACE(members);
        const Vectors vectors = drawn_vectors(members, 203, members * 7 / 16);
        std::vector<std::vector<double>> exact;
        for (const auto& vector : vectors) exact.emplace_back(vector.begin(), vector.end());
        std::vector<double> weights;
        for (std::size_t m = 0; m < members; ++m) weights.push_back(static_cast<double>(1 + m % 3));
        const ClipOptions options{.tau = 0.7, .eps = 1e-9};
        std::vector<double> expected;
        const ClipReport told = reference::centered_clip(exact, weights, options, expected);
        ClipReport report;
        const std::vector<float> out = clip_of(vectors, weights, options, &report);
        for (std::size_t i = 0; i < out.size(); ++i)
            ASSERT_NEAR(static_cast<double>(out[i]), expected[i], 1e-6) << "element " << i;
        EXPECT_EQ(report.clipped, told.clipped);
    }
}

TEST(CenteredClip, GivesTheSameBitsOnEveryInstructionSet) {
    // Sizes that fill no vector, a piece, and more than one.
    for (const std::size_t elements : {1u, 63u, 4096u, 9001u}) {
        const Vectors vectors = drawn_vectors(11, elements, 4);
        for (const double last_weight : {1.0, 2.5}) {
            std::vector<double> weights(11, 1.0);
            weights.back() = last_weight;
            std::vector<float> first;
            tensor::for_each_target([&](const char* target) {
                const std::vector<float> out = clip_of(vectors, weights, {.tau = 1});
                if (first.empty()) first = out;
                ASSERT_EQ(out, first) << target << ", " << elements << " elements";
            });
        }
    }
}

TEST(CenteredClip, LiarsMoveItByNoMoreThanTauHoweverFarTheyGo) {
    const std::size_t elements = 500;
    Vectors honest = drawn_vectors(16, elements, 0);
    const std::vector<double> weights(16, 1.0);
    const ClipOptions options{.tau = 2};
    const std::vector<float> clean = clip_of(honest, weights, options);
    for (const float factor : {-10.0f, -1000.0f, -1e6f}) {
        Vectors attacked = honest;
        for (std::size_t m = 0; m < 7; ++m)
            for (float& each : attacked[m]) each *= factor;
        EXPECT_LT(distance_of(clip_of(attacked, weights, options), clean), 2 * options.tau);
    }
}

// A loss leaps: all are many times tau from each other, as tau follows the steps before.
TEST(CenteredClip, ItStopsWhereTheClippedDifferencesCancelHoweverFarAllAreApart) {
    const std::vector<double> weights(11, 1.0);
    for (const double tau : {1.0, 0.1, 1e-2, 1e-4}) {
        SCOPED_TRACE(tau);
        const Vectors vectors = drawn_vectors(11, 300, 0);
        ClipReport report;
        clip_of(vectors, weights, {.tau = tau}, &report);
        EXPECT_LT(report.iterations, 60u);
        EXPECT_LE(report.last_step, 1e-6 * tau);
    }
}

TEST(CenteredClip, WithAWideTauItIsTheWeightedMean) {
    const Vectors vectors = {{1, 2}, {3, 6}, {8, 4}};
    const std::vector<float> out = clip_of(vectors, {1, 2, 1}, {.tau = 1e6});
    EXPECT_FLOAT_EQ(out[0], 15.0f / 4);
    EXPECT_FLOAT_EQ(out[1], 18.0f / 4);
}

TEST(CenteredClip, APartsTauGrowsWithTheRootOfItsShare) {
    EXPECT_DOUBLE_EQ(part_tau(4, 100, 1600), 1);
    EXPECT_DOUBLE_EQ(part_tau(4, 1600, 1600), 4);
}

TEST(CenteredClip, NoWeightExceedsItsCapTimesTheMedian) {
    EXPECT_EQ(capped_weights(std::vector<double>{8, 0, 8, 1000, 4, 8, 8}, 2),
              (std::vector<double>{8, 0, 8, 16, 4, 8, 8}));
    EXPECT_EQ(capped_weights(std::vector<double>{0, 0}, 2), (std::vector<double>{0, 0}));
}

TEST(CenteredClip, NobodyOfThreeHasHalfOfTheWeight) {
    for (const std::vector<double>& claimed : {std::vector<double>{8, 8, 1000},
                                               std::vector<double>{1, 1000, 1000},
                                               std::vector<double>{1, 2, 3, 1000}}) {
        const std::vector<double> weights = capped_weights(claimed, 2);
        const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
        EXPECT_LE(std::ranges::max(weights), share_most * all * 1.0001);
    }
}

// ---- baselines ----------------------------------------------------------------------------------

TEST(Medians, TheSortingNetworkSortsAnyZerosAndOnes) {
    // Knuth's 0-1 principle: what sorts all of them sorts everything.
    for (std::size_t count = 1; count <= 12; ++count) {
        const auto network = sorting_network(count);
        for (std::uint32_t bits = 0; bits < (1u << count); ++bits) {
            std::uint32_t sorted = bits;
            for (const auto& [i, j] : network) {
                const std::uint32_t a = (sorted >> i) & 1;
                const std::uint32_t b = (sorted >> j) & 1;
                if (a > b) sorted ^= (1u << i) | (1u << j);
            }
            const auto ones = static_cast<std::uint32_t>(std::popcount(bits));
            ASSERT_EQ(sorted, ((1u << ones) - 1) << (count - ones)) << count << " " << bits;
        }
    }
}

TEST(Medians, TheCoordinateWiseOneTakesTheLowerMiddleAndWeighs) {
    const Vectors vectors = {{4, -1}, {1, 0}, {3, 5}, {2, 9}};
    std::vector<float> out(2);
    coordinate_median(VectorInputs(views_of(vectors)), std::vector<double>{1, 1, 1, 1}, out);
    EXPECT_EQ(out, (std::vector<float>{2, 0}));
    coordinate_median(VectorInputs(views_of(vectors)), std::vector<double>{10, 1, 1, 1}, out);
    EXPECT_EQ(out, (std::vector<float>{4, -1}));
}

TEST(Medians, TheGeometricOneIsNotMovedByAMinorityFarAway) {
    Vectors vectors = drawn_vectors(9, 100, 0);
    std::vector<float> clean(100);
    const std::vector<double> weights(9, 1.0);
    geometric_median(VectorInputs(views_of(vectors)), weights, 500, 1e-7, clean);
    for (std::size_t m = 0; m < 4; ++m)
        for (float& each : vectors[m]) each *= -1e5f;
    std::vector<float> attacked(100);
    geometric_median(VectorInputs(views_of(vectors)), weights, 500, 1e-7, attacked);
    EXPECT_LT(distance_of(attacked, clean), 4.0);
}

TEST(Medians, ThreePointsOnALineHaveTheirGeometricMedianAtTheMiddleOne) {
    const Vectors vectors = {{0}, {1}, {10}};
    std::vector<float> out(1);
    geometric_median(
        VectorInputs(views_of(vectors)), std::vector<double>{1, 1, 1}, 2000, 1e-9, out);
    EXPECT_NEAR(static_cast<double>(out[0]), 1, 1e-3);
}

}  // namespace
}  // namespace dedloc::robust
