#include "dedloc/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <limits>
#include <thread>
#include <vector>

#include "dedloc/base/random.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dedloc::optim {
namespace {

template <typename Body>
void on_every_target(Body body) {
    hwy::SetSupportedTargetsForTest(0);
    for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        SCOPED_TRACE(hwy::TargetName(rest & -rest));
        hwy::SetSupportedTargetsForTest(rest & -rest);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// A model of several tensors, one longer than a chunk, with odd sizes.
std::vector<ParameterGroup> some_groups() {
    std::vector<ParameterGroup> groups;
    std::size_t offset = 0;
    const std::size_t sizes[] = {1, 17, 70001, 1000, 64, 3};
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
        const bool special = i % 2 == 0;
        groups.push_back({.name = fmt::format("layer{}", i),
                          .offset = offset,
                          .count = sizes[i],
                          .decay = special,
                          .trust = i != 3});
        offset += sizes[i];
    }
    return groups;
}

std::size_t size_of(std::span<const ParameterGroup> groups) {
    return groups.back().offset + groups.back().count;
}

// No libm in here: golden hashes hang on these numbers.
std::vector<float> random_vector(std::size_t size, Random& random, double scale) {
    std::vector<float> x(size);
    for (float& value : x) {
        value = static_cast<float>(scale * random.uniform(-1, 1) * random.uniform(0, 1));
    }
    return x;
}

std::uint64_t hash_of(const std::vector<float>& x, std::uint64_t hash = 0xcbf29ce484222325) {
    for (const float value : x) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        for (int shift = 0; shift < 32; shift += 8) {
            hash = (hash ^ ((bits >> shift) & 0xff)) * 0x100000001b3;
        }
    }
    return hash;
}

struct Model {
    std::vector<ParameterGroup> groups = some_groups();
    std::vector<float> parameters;
    std::vector<std::vector<float>> moments;

    explicit Model(const OptimizerConfig& config) {
        Random random(1);
        parameters = random_vector(size_of(groups), random, 0.5);
        moments.assign(moments_count(config), std::vector<float>(parameters.size(), 0.0f));
    }

    UpdateReport step(const OptimizerConfig& config,
                      std::uint64_t global_step,
                      std::span<const float> gradient,
                      const ParallelFor& parallel_for = run_in_order) {
        std::vector<std::span<float>> spans(moments.begin(), moments.end());
        return optim::step(config, groups, global_step, parameters, gradient, spans, parallel_for);
    }

    void train(const OptimizerConfig& config,
               std::uint64_t steps,
               const ParallelFor& parallel_for = run_in_order) {
        Random random(2);
        for (std::uint64_t i = 0; i < steps; ++i) {
            step(config, i, random_vector(parameters.size(), random, 0.1), parallel_for);
        }
    }

    std::uint64_t hash() const {
        std::uint64_t result = hash_of(parameters);
        for (const auto& moment : moments) result = hash_of(moment, result);
        return result;
    }
};

OptimizerConfig sgd() {
    return {.kind = OptimizerKind::sgd,
            .schedule = {.kind = ScheduleKind::cosine,
                         .peak = 0.1,
                         .warmup_steps = 5,
                         .total_steps = 200},
            .weight_decay = 5e-4,
            .momentum = 0.9};
}

OptimizerConfig adamw() {
    return {.kind = OptimizerKind::adamw,
            .schedule = {.peak = 1e-3, .warmup_steps = 10},
            .weight_decay = 0.01};
}

OptimizerConfig lamb() {
    return {.kind = OptimizerKind::lamb,
            .schedule = {.kind = ScheduleKind::linear,
                         .peak = 1.76e-3,
                         .warmup_steps = 20,
                         .total_steps = 1000},
            .weight_decay = 0.01,
            .gradient_norm_max = 1,
            .epsilon = 1e-6};
}

OptimizerConfig larc() {
    OptimizerConfig config = sgd();
    config.larc = true;
    config.nesterov = true;
    return config;
}

// ---- The textbook, in double precision ----

struct Textbook {
    std::vector<ParameterGroup> groups = some_groups();
    std::vector<double> p;
    std::vector<double> m;
    std::vector<double> v;

    explicit Textbook(const Model& model)
        : p(model.parameters.begin(), model.parameters.end()), m(p.size()), v(p.size()) {}

    static double norm(const std::vector<double>& x, const ParameterGroup& group) {
        double sum = 0;
        for (std::size_t i = 0; i < group.count; ++i) {
            sum += x[group.offset + i] * x[group.offset + i];
        }
        return std::sqrt(sum);
    }

    std::vector<double> clipped(const OptimizerConfig& config, const std::vector<float>& gradient) {
        std::vector<double> g(gradient.begin(), gradient.end());
        double sum = 0;
        for (const double value : g) sum += value * value;
        const double scale = config.gradient_norm_max / (std::sqrt(sum) + 1e-6);
        if (config.gradient_norm_max > 0 && scale < 1) {
            for (double& value : g) value *= scale;
        }
        return g;
    }

    void step(const OptimizerConfig& config, std::uint64_t t, const std::vector<float>& gradient) {
        const double rate = learning_rate(config.schedule, t - 1);
        const std::vector<double> g = clipped(config, gradient);
        for (const ParameterGroup& group : groups) {
            if (config.kind == OptimizerKind::sgd) step_sgd(config, rate, g, group);
            if (config.kind == OptimizerKind::adamw) step_adamw(config, rate, t, g, group);
            if (config.kind == OptimizerKind::lamb) step_lamb(config, rate, t, g, group);
        }
    }

    void step_sgd(const OptimizerConfig& config,
                  double rate,
                  const std::vector<double>& g,
                  const ParameterGroup& group) {
        double decay = group.decay ? config.weight_decay : 0;
        double scale = 1;
        if (config.larc && group.trust) {
            const double pn = norm(p, group);
            const double gn = norm(g, group);
            scale = config.larc_trust * pn / (gn + decay * pn + config.larc_epsilon) / rate;
            scale = std::min(scale, 1.0);
        }
        for (std::size_t i = group.offset; i < group.offset + group.count; ++i) {
            const double d = (g[i] + decay * p[i]) * scale;
            m[i] = config.momentum * m[i] + d;
            p[i] -= rate * (config.nesterov ? d + config.momentum * m[i] : m[i]);
        }
    }

    void step_adamw(const OptimizerConfig& config,
                    double rate,
                    std::uint64_t t,
                    const std::vector<double>& g,
                    const ParameterGroup& group) {
        const double bias1 = 1 - std::pow(config.beta1, static_cast<double>(t));
        const double bias2 = 1 - std::pow(config.beta2, static_cast<double>(t));
        for (std::size_t i = group.offset; i < group.offset + group.count; ++i) {
            m[i] = config.beta1 * m[i] + (1 - config.beta1) * g[i];
            v[i] = config.beta2 * v[i] + (1 - config.beta2) * g[i] * g[i];
            const double mean = m[i] / bias1;
            const double square = v[i] / bias2;
            const double decay = group.decay ? config.weight_decay : 0;
            p[i] -= rate * decay * p[i] + rate * mean / (std::sqrt(square) + config.epsilon);
        }
    }

    void step_lamb(const OptimizerConfig& config,
                   double rate,
                   std::uint64_t t,
                   const std::vector<double>& g,
                   const ParameterGroup& group) {
        const double steps = static_cast<double>(t);
        double correction = 1;
        if (config.debias) {
            correction =
                std::sqrt(1 - std::pow(config.beta2, steps)) / (1 - std::pow(config.beta1, steps));
        }
        std::vector<double> u(p.size());
        for (std::size_t i = group.offset; i < group.offset + group.count; ++i) {
            m[i] = config.beta1 * m[i] + (1 - config.beta1) * g[i];
            v[i] = config.beta2 * v[i] + (1 - config.beta2) * g[i] * g[i];
            const double decay = group.decay ? config.weight_decay : 0;
            u[i] = m[i] / (std::sqrt(v[i]) + config.epsilon) + decay * p[i];
        }
        const double pn = std::min(norm(p, group), config.norm_clamp);
        const double un = norm(u, group);
        const double trust = group.trust && pn > 0 && un > 0 ? pn / un : 1;
        for (std::size_t i = group.offset; i < group.offset + group.count; ++i) {
            p[i] -= rate * correction * trust * u[i];
        }
    }
};

// || ours - textbook || / || textbook - start ||: the error in terms of the way travelled. Rounding
// a parameter of 0.2 to fp32 costs 7e-9 a step; 100 steps of adamw travel some 1e-2.
double error_after(const OptimizerConfig& config, std::uint64_t steps) {
    Model model(config);
    Textbook textbook(model);
    const std::vector<double> start = textbook.p;
    Random random(2);
    for (std::uint64_t i = 0; i < steps; ++i) {
        const auto gradient = random_vector(start.size(), random, 0.1);
        model.step(config, i, gradient);
        textbook.step(config, i + 1, gradient);
    }
    double apart = 0;
    double travelled = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
        const double difference = model.parameters[i] - textbook.p[i];
        apart += difference * difference;
        travelled += (textbook.p[i] - start[i]) * (textbook.p[i] - start[i]);
    }
    return std::sqrt(apart / travelled);
}

TEST(Optimizer, sgd_follows_the_textbook) {
    EXPECT_LT(error_after(sgd(), 100), 2e-6);
    OptimizerConfig nesterov = sgd();
    nesterov.nesterov = true;
    EXPECT_LT(error_after(nesterov, 100), 2e-6);
    EXPECT_LT(error_after(larc(), 100), 5e-6);
}

TEST(Optimizer, sgd_without_momentum_is_plain_descent) {
    OptimizerConfig config = sgd();
    config.momentum = 0;
    EXPECT_EQ(moments_count(config), 0u);
    EXPECT_LT(error_after(config, 50), 5e-6);
}

TEST(Optimizer, adamw_follows_the_textbook) { EXPECT_LT(error_after(adamw(), 100), 4e-5); }

TEST(Optimizer, lamb_follows_the_textbook_for_100_steps) {
    EXPECT_LT(error_after(lamb(), 100), 4e-5);
    OptimizerConfig config = lamb();
    config.debias = false;
    config.norm_clamp = 2;
    config.gradient_norm_max = 0;
    EXPECT_LT(error_after(config, 100), 4e-5);
}

// ---- The same bits everywhere ----

struct Golden {
    const char* name;
    OptimizerConfig config;
    std::uint64_t hash;
};

// If one of these changes on purpose, raise numerics_version.
std::vector<Golden> goldens() {
    return {{"sgd", sgd(), 0x2adb1d60130421bc},
            {"larc", larc(), 0x47841b61f3e63449},
            {"adamw", adamw(), 0xccf9bb278033e83e},
            {"lamb", lamb(), 0xc231343e2672f2dc}};
}

TEST(Optimizer, golden_hashes_on_every_simd_target) {
    EXPECT_EQ(numerics_version, 1u);
    on_every_target([] {
        for (const Golden& golden : goldens()) {
            Model model(golden.config);
            model.train(golden.config, 20);
            EXPECT_EQ(model.hash(), golden.hash)
                << golden.name << fmt::format(" 0x{:016x}", model.hash());
        }
    });
}

TEST(Optimizer, any_number_of_threads_gives_the_same_bits) {
    for (const std::size_t threads_count : {1u, 2u, 3u, 8u}) {
        const ParallelFor backwards_on_threads = [&](std::size_t tasks_count,
                                                     const std::function<void(std::size_t)>& task) {
            std::vector<std::thread> threads;
            for (std::size_t thread = 0; thread < threads_count; ++thread) {
                threads.emplace_back([&, thread] {
                    for (std::size_t i = tasks_count; i-- > 0;) {
                        if (i % threads_count == thread) task(i);
                    }
                });
            }
            for (std::thread& thread : threads) thread.join();
        };
        for (const Golden& golden : goldens()) {
            Model model(golden.config);
            model.train(golden.config, 20, backwards_on_threads);
            EXPECT_EQ(model.hash(), golden.hash) << golden.name << " " << threads_count;
        }
    }
}

#if defined(__x86_64__)
TEST(Optimizer, a_thread_with_another_floating_point_environment_gets_the_same_bits) {
    const unsigned saved = _mm_getcsr();
    for (const Golden& golden : goldens()) {
        Model model(golden.config);
        Random random(2);
        std::vector<std::vector<float>> gradients;
        for (int i = 0; i < 20; ++i) {
            gradients.push_back(random_vector(model.parameters.size(), random, 0.1));
        }
        _mm_setcsr(saved | 0x8040u | 0x6000u);  // FTZ, DAZ, towards zero
        for (std::uint64_t i = 0; i < 20; ++i) model.step(golden.config, i, gradients[i]);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved);
        EXPECT_EQ(after & 0xe040u, 0xe040u);
        EXPECT_EQ(model.hash(), golden.hash) << golden.name;
    }
}
#endif

TEST(Optimizer, denormals_are_kept) {
    OptimizerConfig config = sgd();
    config.weight_decay = 0;
    config.schedule = {.peak = 0.5};
    Model model(config);
    const float tiny = 1e-40f;
    model.parameters.assign(model.parameters.size(), 3e-40f);
    on_every_target([&] {
        Model turn = model;
        turn.step(config, 0, std::vector<float>(turn.parameters.size(), tiny));
        for (const float value : turn.parameters) ASSERT_EQ(value, 3e-40f - 0.5f * tiny);
        for (const float value : turn.moments[0]) ASSERT_EQ(value, tiny);
    });
}

// ---- Details ----

TEST(Optimizer, elements_in_no_group_are_left_alone) {
    for (const Golden& golden : goldens()) {
        Model model(golden.config);
        model.groups.erase(model.groups.begin() + 2);
        const std::vector<float> before = model.parameters;
        model.step(golden.config, 0, std::vector<float>(before.size(), 0.5f));
        for (std::size_t i = 0; i < before.size(); ++i) {
            const bool in_gap = i >= 18 && i < 18 + 70001;
            ASSERT_EQ(model.parameters[i] == before[i], in_gap) << golden.name << " " << i;
        }
    }
}

TEST(Optimizer, a_long_gradient_is_clipped_to_the_norm_and_reported) {
    OptimizerConfig config = sgd();
    config.momentum = 0;
    config.weight_decay = 0;
    config.schedule = {.peak = 1};
    config.gradient_norm_max = 1;
    Model model(config);
    model.parameters.assign(model.parameters.size(), 0);
    std::vector<float> gradient(model.parameters.size(), 0);
    gradient[0] = 3;
    gradient[100] = 4;
    const UpdateReport clipped = model.step(config, 0, gradient);
    EXPECT_EQ(clipped.gradient_norm, 5);
    EXPECT_TRUE(clipped.clipped);
    EXPECT_EQ(clipped.learning_rate, 1);
    EXPECT_NEAR(model.parameters[0], -0.6, 1e-6);
    EXPECT_NEAR(model.parameters[100], -0.8, 1e-6);
    config.gradient_norm_max = 6;
    EXPECT_FALSE(model.step(config, 1, gradient).clipped);
    EXPECT_NEAR(model.parameters[0], -3.6, 1e-6);
}

TEST(Optimizer, a_zero_tensor_has_trust_one) {
    const OptimizerConfig config = {.kind = OptimizerKind::lamb,
                                    .schedule = {.peak = 0.1},
                                    .beta1 = 0.5,
                                    .beta2 = 0.5,
                                    .epsilon = 1e-6};
    Model model(config);
    model.parameters.assign(model.parameters.size(), 0);
    model.step(config, 0, std::vector<float>(model.parameters.size(), 1.0f));
    // m = v = 0.5, c = sqrt(0.5) / 0.5, u = 0.5 / sqrt(0.5): the step is exactly the rate.
    for (const float value : model.parameters) ASSERT_NEAR(value, -0.1f, 1e-6);
}

TEST(Optimizer, a_resumed_run_continues_with_the_same_bits) {
    for (const Golden& golden : goldens()) {
        Model first(golden.config);
        Random random(2);
        for (std::uint64_t i = 0; i < 20; ++i) {
            if (i == 7) {  // everything a checkpoint holds, in new memory
                Model second(golden.config);
                second.parameters = first.parameters;
                second.moments = first.moments;
                first = second;
            }
            first.step(golden.config, i, random_vector(first.parameters.size(), random, 0.1));
        }
        EXPECT_EQ(first.hash(), golden.hash) << golden.name;
    }
}

TEST(Optimizer, wrong_configurations_are_refused_with_the_fields_name) {
    for (const Golden& golden : goldens()) EXPECT_TRUE(check(golden.config));
    const auto refused = [](auto change, std::string_view field) {
        OptimizerConfig config = sgd();
        change(config);
        const Ok result = check(config);
        ASSERT_FALSE(result) << field;
        EXPECT_EQ(result.error().kind(), ErrorKind::bad_input);
        EXPECT_NE(result.error().message().find(field), std::string::npos);
    };
    refused([](auto& c) { c.momentum = 1; }, "momentum");
    refused([](auto& c) { c.weight_decay = -1; }, "weight_decay");
    refused([](auto& c) { c.beta1 = NAN; }, "beta1");
    refused([](auto& c) { c.beta2 = 1.5; }, "beta2");
    refused([](auto& c) { c.epsilon = 0; }, "epsilon");
    refused([](auto& c) { c.gradient_norm_max = INFINITY; }, "gradient_norm_max");
    refused([](auto& c) { c.schedule.peak = NAN; }, "learning rate");
    refused([](auto& c) { c.momentum = 0, c.nesterov = true; }, "nesterov");
    EXPECT_EQ(*optimizer_from_string("lamb"), OptimizerKind::lamb);
    EXPECT_EQ(to_string(OptimizerKind::adamw), "adamw");
    EXPECT_FALSE(optimizer_from_string("adam"));
}

TEST(Optimizer, groups_that_overlap_or_leave_the_vector_are_refused) {
    using Groups = std::vector<ParameterGroup>;
    EXPECT_TRUE(check(Groups{{"a", 0, 4}, {"b", 6, 4}}, 10));
    EXPECT_FALSE(check(Groups{{"a", 0, 4}, {"b", 3, 4}}, 10));
    EXPECT_FALSE(check(Groups{{"a", 4, 4}, {"b", 0, 4}}, 10));
    EXPECT_FALSE(check(Groups{{"a", 8, 3}}, 10));
    EXPECT_FALSE(check(Groups{{"a", 11, 0}}, 10));
    EXPECT_FALSE(check(Groups{{"a", 1, std::numeric_limits<std::size_t>::max()}}, 10));
    EXPECT_EQ(moment_name(lamb(), 1), "exp_avg_sq");
    EXPECT_EQ(moment_name(sgd(), 0), "momentum");
}

}  // namespace
}  // namespace dedloc::optim
