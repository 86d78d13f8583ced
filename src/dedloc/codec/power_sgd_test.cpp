#include "dedloc/codec/power_sgd.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/codec/codec_testing.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

nlohmann::json vectors() {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/hivemind_vectors.json");
    return nlohmann::json::parse(file);
}

std::vector<float> mean(const std::vector<std::vector<float>>& all) {
    std::vector<float> sum(all[0].size(), 0.0f);
    for (const auto& one : all) tensor::add_weighted(sum, one, 1.0f);
    tensor::divide(sum, static_cast<float>(all.size()));
    return sum;
}

TEST(PowerSgd, shapes_are_merged_as_hivemind_merges_them) {
    const auto golden = vectors();
    for (const auto& vector : golden.at("flatten_greedy_dims")) {
        const auto shape = vector["shape"].get<std::vector<std::int64_t>>();
        const auto dims = vector["dims"].get<std::vector<std::size_t>>();
        const auto got = matrix_shape(shape, 1, -10);
        ASSERT_TRUE(got);
        EXPECT_EQ(*got, (MatrixShape{dims[0], dims[1]}));
    }
    const std::vector<std::int64_t> bias = {1024};
    EXPECT_FALSE(matrix_shape(bias, 1));
    const std::vector<std::int64_t> square = {10, 10};
    EXPECT_TRUE(matrix_shape(square, 2));
    EXPECT_FALSE(matrix_shape(square, 3)) << "60 of 100 numbers save less than half";
    const std::vector<std::int64_t> empty = {10, 0};
    EXPECT_FALSE(matrix_shape(empty, 1));
}

TEST(PowerSgd, vectors_become_orthonormal_as_in_hivemind) {
    const auto golden = vectors().at("orthogonalize");
    const auto input = golden["input"].get<std::vector<std::vector<float>>>();
    const auto output = golden["output"].get<std::vector<std::vector<float>>>();
    std::vector<float> columns;
    for (std::size_t k = 0; k < 3; ++k)
        for (const auto& row : input) columns.push_back(row[k]);
    orthonormalize(columns, 3);
    // The third column is what is left of nearly dependent ones: errors of 1e-7 are magnified.
    for (std::size_t k = 0; k < 3; ++k)
        for (std::size_t i = 0; i < 4; ++i)
            EXPECT_NEAR(columns[4 * k + i], output[i][k], k < 2 ? 1e-5 : 1e-3);
    std::vector<float> zeros(8, 0.0f);
    orthonormalize(zeros, 2);
    EXPECT_EQ(zeros, std::vector<float>(8, 0.0f));
}

// One round of a group; returns the average that every peer computed.
std::vector<float> round_of(std::vector<PowerSgd>& peers,
                            const std::vector<std::vector<float>>& gradients,
                            std::size_t left_out) {
    std::vector<std::vector<float>> p;
    std::vector<std::vector<float>> q;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        p.push_back(*peers[i].first_factor(gradients[i]));
    }
    if (left_out < peers.size()) p.erase(p.begin() + static_cast<std::ptrdiff_t>(left_out));
    const std::vector<float> average_p = mean(p);
    for (PowerSgd& peer : peers) q.push_back(*peer.second_factor(average_p));
    if (left_out < peers.size()) q.erase(q.begin() + static_cast<std::ptrdiff_t>(left_out));
    const std::vector<float> average_q = mean(q);
    std::vector<std::vector<float>> averages;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        averages.emplace_back(gradients[i].size());
        EXPECT_TRUE(peers[i].finish(average_q, i != left_out, averages.back()));
        EXPECT_EQ(averages.back(), averages.front()) << "the same bits for everybody";
    }
    return averages[0];
}

TEST(PowerSgd, sent_and_residual_together_are_the_gradients) {
    const MatrixShape shape{48, 37};
    const std::size_t size = shape.rows * shape.columns;
    for (const std::size_t left_out : {std::size_t{9}, std::size_t{1}}) {
        std::vector<PowerSgd> peers(3, PowerSgd(shape, 4, 7));
        std::vector<double> given(size, 0.0);
        std::vector<double> applied(size, 0.0);
        const double included = left_out < 3 ? 2 : 3;
        for (std::uint64_t step = 0; step < 20; ++step) {
            std::vector<std::vector<float>> gradients;
            for (std::uint64_t i = 0; i < 3; ++i)
                gradients.push_back(normal_vector(size, 100 * step + i));
            const std::vector<float> average = round_of(peers, gradients, left_out);
            for (std::size_t i = 0; i < size; ++i) {
                for (const auto& gradient : gradients) given[i] += static_cast<double>(gradient[i]);
                applied[i] += static_cast<double>(average[i]) * included;
                double waiting = 0;
                for (const PowerSgd& peer : peers) waiting += peer.residual()[i];
                // The average of the Qs is rounded, so the sum of three differs a little.
                ASSERT_NEAR(given[i], applied[i] + waiting, 1e-4) << "step " << step;
            }
        }
    }
}

TEST(PowerSgd, a_matrix_of_that_rank_is_sent_whole) {
    const MatrixShape shape{64, 50};
    const std::vector<float> a = normal_vector(2 * shape.rows, 1);
    const std::vector<float> b = normal_vector(2 * shape.columns, 2);
    std::vector<float> gradient(shape.rows * shape.columns, 0.0f);
    for (std::size_t i = 0; i < shape.rows; ++i)
        for (std::size_t k = 0; k < 2; ++k)
            tensor::add_weighted(std::span(gradient).subspan(i * shape.columns, shape.columns),
                                 std::span(b).subspan(k * shape.columns, shape.columns),
                                 a[k * shape.rows + i]);
    std::vector<PowerSgd> peers(2, PowerSgd(shape, 2, 3));
    const std::vector<float> average = round_of(peers, {gradient, gradient}, 9);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_NEAR(average[i], gradient[i], 1e-4);
        ASSERT_NEAR(peers[0].residual()[i], 0, 1e-4);
    }
}

TEST(PowerSgd, a_constant_gradient_arrives_in_the_end) {
    const MatrixShape shape{60, 60};
    const std::vector<float> gradient = normal_vector(3600, 5);
    std::vector<PowerSgd> peers(1, PowerSgd(shape, 4, 3));
    std::vector<float> sum(3600, 0.0f);
    const int steps = 300;
    for (int step = 0; step < steps; ++step)
        tensor::add_weighted(sum, round_of(peers, {gradient}, 9), 1.0f / steps);
    double error = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) error += std::pow(sum[i] - gradient[i], 2);
    EXPECT_LT(std::sqrt(error / 3600), 0.1);
}

// LoRA's first gradient of A is zero, as B is.
TEST(PowerSgd, goes_on_after_a_gradient_that_was_zero_everywhere) {
    const MatrixShape shape{60, 60};
    const std::vector<float> gradient = normal_vector(3600, 5);
    std::vector<PowerSgd> peers(2, PowerSgd(shape, 4, 3));
    const std::vector<float> zero(3600, 0.0f);
    EXPECT_EQ(round_of(peers, {zero, zero}, 9), zero);
    EXPECT_NE(round_of(peers, {gradient, gradient}, 9), zero);
}

TEST(PowerSgd, hostile_factors_are_refused_and_an_abandoned_round_loses_nothing) {
    PowerSgd peer({10, 20}, 2, 3);
    const std::vector<float> gradient = normal_vector(200, 6);
    std::vector<float> p = *peer.first_factor(gradient);
    p[3] = INFINITY;
    EXPECT_EQ(peer.second_factor(p).error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(peer.second_factor(std::vector<float>(3)).error().kind(), ErrorKind::bad_input);
    for (float& value : p) value = 3e38f;
    EXPECT_EQ(peer.second_factor(p).error().kind(), ErrorKind::bad_input) << "overflows on the way";
    for (float& value : p) value = 1e30f;
    std::vector<float> q = *peer.second_factor(p);
    EXPECT_TRUE(tensor::all_finite(q));
    std::vector<float> out(200);
    std::vector<float> bad = q;
    bad[0] = NAN;
    EXPECT_FALSE(peer.finish(bad, true, out));
    peer.abandon();
    EXPECT_EQ(std::vector<float>(peer.residual().begin(), peer.residual().end()), gradient);
    EXPECT_FALSE(peer.set_q(bad));
    EXPECT_TRUE(peer.set_q(q));
    std::vector<float> infinite = gradient;
    infinite[5] = INFINITY;
    EXPECT_FALSE(peer.first_factor(infinite));
    EXPECT_TRUE(peer.first_factor(gradient)) << "and then it goes on";
}

}  // namespace
}  // namespace dedloc::codec
