#include "dedloc/robust/rows.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/vectors_testing.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::robust {
namespace {

Digest row_seed(std::uint8_t first) {
    Bytes bytes(32, 5);
    bytes[0] = first;
    return Digest::from(bytes).value();
}

// One owner's reduction of 16 members' vectors, and the rows about it.
struct Proof {
    static constexpr std::size_t elements = 6617;
    static constexpr double tau = 1;
    std::vector<std::vector<float>> vectors;
    std::vector<double> weights = std::vector<double>(16, 8.0);
    std::vector<float> average = std::vector<float>(elements);
    std::vector<Row> rows;
    double codec_error = 0;

    explicit Proof(std::size_t liars = 7) {
        Random random(3);
        for (std::size_t m = 0; m < 16; ++m) {
            vectors.emplace_back(elements);
            for (float& each : vectors.back())
                each =
                    static_cast<float>((m < liars ? -1000 : 1) * (0.005 + 0.02 * random.normal()));
        }
        centered_clip(VectorInputs(views_of(vectors)), weights, {.tau = tau}, average);
    }

    // As fp16 does.
    void round_average() {
        Bytes halves(2 * elements);
        tensor::halves_from_floats(average, halves);
        double squares = 0;
        for (const float each : average) squares += std::pow(static_cast<double>(each) / 2048, 2);
        codec_error = std::sqrt(squares);
        tensor::floats_from_halves(halves, average);
    }

    void make_rows(std::uint8_t seed) {
        const Projections projections(row_seed(seed));
        const ProvedPart part{100, average, tau};
        const Projected of_average = project_average(projections, part);
        rows.clear();
        for (const auto& vector : vectors) {
            RowMaker maker(projections);
            maker.add(part, of_average, vector);
            rows.push_back(maker.row());
        }
    }

    bool holds() const {
        std::vector<WeightedRow> weighted;
        for (std::size_t m = 0; m < rows.size(); ++m) weighted.push_back({weights[m], &rows[m]});
        const std::vector<PartAllowance> parts = {{16 * 8.0, tau, codec_error}};
        return check_sums(weighted, parts, 1e-6).has_value();
    }
};

TEST(Rows, OfAnHonestReductionCancelUnderEverySeed) {
    Proof proof;
    for (std::uint8_t seed = 0; seed < 40; ++seed) {
        proof.make_rows(seed);
        EXPECT_TRUE(proof.holds()) << int{seed};
    }
}

TEST(Rows, AllowWhatTheCodecRounds) {
    Proof proof;
    proof.round_average();
    for (std::uint8_t seed = 0; seed < 40; ++seed) {
        proof.make_rows(seed);
        EXPECT_TRUE(proof.holds()) << int{seed};
    }
}

TEST(Rows, ShowAnAverageThatIsShiftedByAHundredthOfTau) {
    int found = 0;
    for (std::uint8_t seed = 0; seed < 40; ++seed) {
        Proof proof;
        proof.round_average();
        for (float& each : proof.average)
            each += static_cast<float>(0.01 * Proof::tau / std::sqrt(Proof::elements));
        proof.make_rows(seed);
        found += proof.holds() ? 0 : 1;
    }
    EXPECT_EQ(found, 40);
}

TEST(Rows, ShowAMemberThatTellsAnotherRow) {
    Proof proof;
    proof.make_rows(1);
    proof.rows[9].clipped[3] += 0.1f;
    EXPECT_FALSE(proof.holds());
}

TEST(Rows, LongerThanAnyClippedDifferenceAreRefusedEvenIfTheyCancel) {
    Proof proof;
    proof.make_rows(1);
    proof.rows[9].clipped[3] += 100;
    proof.rows[10].clipped[3] -= 100;
    EXPECT_FALSE(proof.holds());
}

TEST(Rows, TravelAsBytesAndBack) {
    Proof proof;
    proof.make_rows(1);
    const Bytes bytes = encode_rows(proof.rows);
    EXPECT_EQ(bytes.size(), 16 * row_bytes);
    const auto back = decode_rows(bytes, 16);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, proof.rows);
    EXPECT_FALSE(decode_rows(bytes, 15).has_value());
}

TEST(Rows, ThatAreNoNumbersAreRefused) {
    Row row;
    row.contribution[2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(decode_rows(encode_rows(std::vector{row}), 1).has_value());
    row.contribution[2] = 0;
    row.norm = -1;
    EXPECT_FALSE(decode_rows(encode_rows(std::vector{row}), 1).has_value());
}

std::vector<Row> rows_of_scaled(float factor, double noise) {
    Random random(11);
    std::vector<float> gradient(5000);
    for (float& each : gradient) {
        const double value = random.normal();
        each = factor * static_cast<float>(value * (1 + noise * random.normal()));
    }
    const std::vector<float> zero(gradient.size(), 0.0f);
    const Projections projections(row_seed(2));
    RowMaker maker(projections);
    maker.add({0, zero, 1e9}, Projected{}, gradient);
    return {maker.row()};
}

TEST(Rows, OfARecomputationOnUnlikeHardwareAgreeAndOfAGradientTimesOneAndAHalfDoNot) {
    const std::vector<Row> honest = rows_of_scaled(1, 0);
    EXPECT_TRUE(agree(rows_of_scaled(1, 1e-3), honest, 2e-3));
    EXPECT_FALSE(agree(rows_of_scaled(1.5f, 0), honest, 2e-3));
    EXPECT_FALSE(agree(rows_of_scaled(1.02f, 0), honest, 2e-3));
    EXPECT_FALSE(agree(rows_of_scaled(-1000, 0), honest, 2e-3));
    EXPECT_FALSE(agree(rows_of_scaled(0, 0), honest, 2e-3));
}

// Rows of `owners` owners about one gradient, off by `noise` of its length, by this draw.
std::vector<Row> rows_of_noisy(std::size_t owners, double noise, std::uint64_t draw, bool other) {
    constexpr std::size_t elements = 64;  // of an owner's part
    Random gradient(draw);
    Random machine(base::mix64(draw) + (other ? 1 : 0));
    const std::vector<float> zero(elements, 0.0f);
    Digest seed;
    for (std::size_t i = 0; i < 8; ++i) seed.bytes[i] = static_cast<std::uint8_t>(draw >> (8 * i));
    const Projections projections(seed);
    std::vector<Row> rows;
    for (std::size_t owner = 0; owner < owners; ++owner) {
        std::vector<float> mean(elements);
        for (float& each : mean)
            each = static_cast<float>(gradient.normal() + noise * machine.normal());
        RowMaker maker(projections);
        maker.add({owner * elements, zero, 1e9}, Projected{}, mean);
        rows.push_back(maker.row());
    }
    return rows;
}

// However few owners there are.
TEST(Rows, OfHonestPeersThatAreOffByHalfTheToleranceNeverDiffer) {
    for (const std::size_t owners : {1u, 2u, 5u, 16u})
        for (std::uint64_t draw = 1; draw <= 2000; ++draw)
            ASSERT_TRUE(agree(rows_of_noisy(owners, 1e-3, draw, false),
                              rows_of_noisy(owners, 1e-3, draw, true),
                              2e-3))
                << owners << " owners, draw " << draw;
}

}  // namespace
}  // namespace dedloc::robust
