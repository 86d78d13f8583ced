#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <thread>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/optim/orthogonal.h"

namespace dedloc::optim {
namespace {

using Doubles = std::vector<double>;

OptimizerConfig muon() {
    OptimizerConfig config;
    config.kind = OptimizerKind::muon;
    config.schedule.peak = 0.02;
    config.momentum = 0.95;
    config.nesterov = true;
    config.weight_decay = 0.1;
    return config;
}

std::vector<float> random_numbers(std::size_t count, Random& random) {
    std::vector<float> x(count);
    for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
    return x;
}

Doubles product(const Doubles& a, const Doubles& b, std::size_t inner, std::size_t columns) {
    Doubles out(a.size() / inner * columns);
    for (std::size_t i = 0; i < a.size() / inner; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            for (std::size_t k = 0; k < inner; ++k)
                out[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    return out;
}

Doubles transposed(const Doubles& x, std::size_t columns) {
    const std::size_t rows = x.size() / columns;
    Doubles out(x.size());
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = x[i * columns + j];
    return out;
}

// zeropower_via_newtonschulz of the published code, in double precision.
Doubles published_polynomial(Doubles x, std::size_t columns) {
    const std::size_t rows = x.size() / columns;
    if (rows > columns) return transposed(published_polynomial(transposed(x, columns), rows), rows);
    double squares = 0;
    for (const double value : x) squares += value * value;
    for (double& value : x) value /= std::max(std::sqrt(squares), 1e-7);
    for (int step = 0; step < 5; ++step) {
        Doubles gram = product(x, transposed(x, columns), columns, rows);
        const Doubles square = product(gram, gram, rows, rows);
        for (std::size_t i = 0; i < gram.size(); ++i)
            gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
        const Doubles rest = product(gram, x, rows, columns);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + rest[i];
    }
    return x;
}

struct Matrices {
    std::vector<ParameterGroup> groups;
    std::vector<float> parameters;
    std::vector<std::vector<float>> moments;

    Matrices(const OptimizerConfig& config, Random& random) {
        const auto add = [&](std::size_t rows, std::size_t columns, bool is_matrix) {
            groups.push_back({.name = fmt::format("layer{}", groups.size()),
                              .offset = parameters.size(),
                              .count = rows * columns,
                              .decay = is_matrix,
                              .columns = is_matrix ? columns : 0});
            for (const float value : random_numbers(rows * columns, random))
                parameters.push_back(value);
        };
        add(17, 40, true);
        add(1, 17, false);
        add(301, 70, true);
        add(1, 3, true);
        add(1, 70, false);
        for (std::size_t i = 0; i < moments_count(config); ++i)
            moments.emplace_back(moment_sizes(config, groups, parameters.size(), i).values);
    }

    void step(const OptimizerConfig& config,
              std::uint64_t number,
              const std::vector<float>& gradient,
              const ParallelFor& parallel_for = run_in_order) {
        const std::vector<std::span<float>> views(moments.begin(), moments.end());
        (void)optim::step(config, groups, number, parameters, gradient, views, parallel_for);
    }
};

TEST(Muon, MakesThePublishedStepOfAMatrix) {
    Random random(7);
    const OptimizerConfig config = muon();
    Matrices model(config, random);
    Doubles expected(model.parameters.begin(), model.parameters.end());
    Doubles momentum(expected.size());
    for (std::uint64_t number = 0; number < 4; ++number) {
        const std::vector<float> gradient = random_numbers(expected.size(), random);
        model.step(config, number, gradient);
        for (const ParameterGroup& group : model.groups) {
            if (group.columns == 0) continue;
            Doubles direction(group.count);
            for (std::size_t i = 0; i < group.count; ++i) {
                const double g = static_cast<double>(gradient[group.offset + i]);
                double& m = momentum[group.offset + i];
                m = 0.95 * m + 0.05 * g;
                direction[i] = 0.95 * m + 0.05 * g;
            }
            direction = published_polynomial(direction, group.columns);
            const double longest =
                static_cast<double>(std::max(group.columns, group.count / group.columns));
            const double rate = 0.02 * 0.2 * std::sqrt(longest);
            for (std::size_t i = 0; i < group.count; ++i) {
                double& p = expected[group.offset + i];
                p = p * (1 - 0.02 * 0.1) - rate * direction[i];
                EXPECT_NEAR(static_cast<double>(model.parameters[group.offset + i]), p, 2e-5)
                    << group.name << " " << i;
            }
        }
    }
}

TEST(Muon, MakesSingularValuesNearlyEqual) {
    Random random(8);
    std::vector<float> matrix = random_numbers(32 * 96, random);
    orthogonalize(matrix, 96, 5, run_in_order);
    const Doubles x(matrix.begin(), matrix.end());
    const Doubles gram = product(x, transposed(x, 96), 96, 32);
    double trace = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        trace += gram[i * 32 + i];
        EXPECT_GT(gram[i * 32 + i], 0.4);
        EXPECT_LT(gram[i * 32 + i], 1.5);
    }
    EXPECT_NEAR(trace / 32, 0.9, 0.25);
}

TEST(Muon, MovesVectorsAsAdamWDoes) {
    Random random(9);
    const OptimizerConfig config = muon();
    OptimizerConfig adamw = config;
    adamw.kind = OptimizerKind::adamw;
    Random same(9);
    Matrices ours(config, random);
    Matrices theirs(adamw, same);
    for (std::uint64_t number = 0; number < 3; ++number) {
        const std::vector<float> gradient = random_numbers(ours.parameters.size(), random);
        ours.step(config, number, gradient);
        theirs.step(adamw, number, gradient);
    }
    for (const ParameterGroup& group : ours.groups)
        for (std::size_t i = group.offset; i < group.offset + group.count; ++i)
            EXPECT_EQ(ours.parameters[i] == theirs.parameters[i], group.columns == 0) << i;
}

TEST(Muon, KeepsOneMomentOfAMatrix) {
    Random random(10);
    const Matrices model(muon(), random);
    EXPECT_EQ(model.moments[0].size(), model.parameters.size());
    EXPECT_EQ(model.moments[1].size(), 17u + 70u);
}

TEST(Muon, HasTheSameBitsOnEveryCpuAndWithAnyNumberOfThreads) {
    const ParallelFor with_threads = [](std::size_t count, const auto& task) {
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
        for (std::thread& thread : threads) thread.join();
    };
    const auto stepped = [](const ParallelFor& parallel_for) {
        Random random(11);
        Matrices model(muon(), random);
        for (std::uint64_t number = 0; number < 3; ++number)
            model.step(
                muon(), number, random_numbers(model.parameters.size(), random), parallel_for);
        return model.parameters;
    };
    const std::vector<float> expected = stepped(run_in_order);
    EXPECT_EQ(expected, stepped(with_threads));
    hwy::SetSupportedTargetsForTest(0);
    for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        SCOPED_TRACE(hwy::TargetName(rest & -rest));
        hwy::SetSupportedTargetsForTest(rest & -rest);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        EXPECT_EQ(expected, stepped(run_in_order));
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Muon, ALayerOfZerosStays) {
    std::vector<float> matrix(12, 0.0f);
    orthogonalize(matrix, 4, 5, run_in_order);
    EXPECT_EQ(matrix, std::vector<float>(12, 0.0f));
}

TEST(ParameterGroups, HaveALearningRateAndAWeightDecayOfTheirOwn) {
    for (const OptimizerKind kind :
         {OptimizerKind::sgd, OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::muon}) {
        SCOPED_TRACE(to_string(kind));
        OptimizerConfig config = muon();
        config.kind = kind;
        const auto moved = [&](double factor, std::optional<double> decay, double rate) {
            OptimizerConfig used = config;
            used.schedule.peak = rate;
            Random random(12);
            Matrices model(used, random);
            for (ParameterGroup& group : model.groups) {
                group.rate_factor = factor;
                group.weight_decay = decay;
            }
            model.step(used, 0, random_numbers(model.parameters.size(), random));
            return model.parameters;
        };
        EXPECT_EQ(moved(0.5, std::nullopt, 0.02), moved(1, std::nullopt, 0.01));
        EXPECT_NE(moved(1, std::nullopt, 0.02), moved(1, 0.0, 0.02));
        Random random(12);
        EXPECT_EQ(moved(0, std::nullopt, 0.02), Matrices(config, random).parameters);
    }
}

TEST(ParameterGroups, AreRefusedWhereNoStepCanBeMade) {
    std::vector<ParameterGroup> groups = {{.name = "a", .offset = 0, .count = 6, .columns = 3}};
    EXPECT_TRUE(check(groups, 6));
    groups[0].columns = 4;
    EXPECT_FALSE(check(groups, 6));
    groups[0].columns = 0;
    for (const double factor : {-1.0, 1e9, std::nan("")}) {
        groups[0].rate_factor = factor;
        EXPECT_FALSE(check(groups, 6)) << factor;
    }
    groups[0].rate_factor = 1;
    groups[0].weight_decay = -0.5;
    EXPECT_FALSE(check(groups, 6));
}

}  // namespace
}  // namespace dedloc::optim
