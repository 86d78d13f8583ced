// Moments of 8 bits, parts of a model that are frozen, rows of unit length.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "dedloc/base/random.h"
#include "dedloc/optim/code_book.h"
#include "dedloc/optim/lamb8_kernels.h"
#include "dedloc/optim/optimizer.h"

namespace dedloc::optim {
namespace {

OptimizerConfig lamb8() {
    return {.kind = OptimizerKind::lamb,
            .schedule = {.peak = 2.5e-3},
            .weight_decay = 0.045,
            .gradient_norm_max = 4,
            .beta2 = 0.96,
            .epsilon = 1e-6,
            .debias = false,
            .moments_8bit = true};
}

// The moments of a model as one owner.
struct OwnedMoments {
    std::vector<std::vector<float>> values;
    std::vector<std::vector<std::uint8_t>> codes;
    std::vector<std::vector<float>> scales;

    OwnedMoments(const OptimizerConfig& config,
                 std::span<const ParameterGroup> groups,
                 std::size_t elements) {
        const MomentSizes sizes = moment_sizes(config, groups, elements);
        for (std::size_t i = 0; i < moments_count(config); ++i) {
            values.emplace_back(sizes.values);
            codes.emplace_back(sizes.codes);
            scales.emplace_back(sizes.scales);
        }
    }
    std::vector<MomentView> views() {
        std::vector<MomentView> all;
        for (std::size_t i = 0; i < values.size(); ++i)
            all.push_back({values[i], codes[i], scales[i]});
        return all;
    }
};

// Two coded tensors of odd sizes around one that is too small for codes.
std::vector<ParameterGroup> mixed_groups() {
    return {{.name = "large", .offset = 0, .count = 70001},
            {.name = "small", .offset = 70001, .count = 1000, .decay = false},
            {.name = "least", .offset = 71001, .count = coded_elements_min}};
}
constexpr std::size_t mixed_elements = 71001 + coded_elements_min;

std::vector<float> noise(std::size_t size, Random& random, double scale) {
    std::vector<float> x(size);
    for (float& value : x)
        value = static_cast<float>(scale * random.uniform(-1, 1) * random.uniform(0, 1));
    return x;
}

std::uint8_t nearest_by_search(const CodeBook& book, float x) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < codes_count; ++i) {
        const double distance = std::abs(double{book.values()[i]} - double{x});
        if (distance < std::abs(double{book.values()[best]} - double{x})) best = i;
    }
    return static_cast<std::uint8_t>(best);
}

TEST(CodeBook, has_the_values_of_bitsandbytes) {
    std::ifstream golden(DEDLOC_TEST_DATA "/oracles/lamb8/golden.txt");  // make_golden.py's
    for (const CodeBook* book : {&CodeBook::with_sign(), &CodeBook::from_zero()}) {
        for (const float ours : book->values()) {
            double theirs = 0;
            ASSERT_TRUE(golden >> theirs);
            // The reference values are computed in fp32, with a rounding or two on the way.
            EXPECT_NEAR(ours, theirs, 3e-7 * std::abs(theirs));
        }
        EXPECT_TRUE(std::ranges::is_sorted(book->values()));
        EXPECT_EQ(std::ranges::adjacent_find(book->values()), book->values().end());
        EXPECT_EQ(std::ranges::count(book->values(), 0.0f), 1);
    }
}

TEST(CodeBook, gives_the_nearest_code_and_the_lower_of_two) {
    Random random(7);
    for (const CodeBook* book : {&CodeBook::with_sign(), &CodeBook::from_zero()}) {
        std::vector<float> numbers(book->values().begin(), book->values().end());
        for (std::size_t i = 0; i + 1 < codes_count; ++i) {
            const float middle = (book->values()[i] + book->values()[i + 1]) / 2;
            for (const float x :
                 {middle, std::nextafter(middle, -2.0f), std::nextafter(middle, 2.0f)})
                numbers.push_back(x);
        }
        for (int i = 0; i < 20000; ++i) {
            const double x = random.uniform(-1, 1) * std::pow(10, random.uniform(-8, 0));
            numbers.push_back(static_cast<float>(x));
        }
        for (const float x : numbers) ASSERT_EQ(book->nearest(x), nearest_by_search(*book, x)) << x;
        EXPECT_EQ(book->values()[book->nearest(0.0f)], 0.0f);
        (void)book->nearest(std::nanf(""));
        (void)book->nearest(-std::numeric_limits<float>::infinity());
    }
}

TEST(Lamb8, keeps_tensors_below_65536_elements_in_fp32_and_needs_little_more_than_two_bytes) {
    const auto groups = mixed_groups();
    const MomentSizes sizes = moment_sizes(lamb8(), groups, mixed_elements);
    EXPECT_EQ(sizes.values, 1000u);
    EXPECT_EQ(sizes.codes, 70001u + coded_elements_min);
    EXPECT_EQ(sizes.scales, 18u + 16u);
    const std::vector<ParameterGroup> one = {{.name = "w", .offset = 0, .count = 17'800'000}};
    const double bytes = 2.0 * static_cast<double>(moment_sizes(lamb8(), one, 17'800'000).bytes());
    EXPECT_LT(bytes / 17'800'000, 2.1);
}

// Distance to LAMB in double precision over 100 steps, in terms of the parameters' length.
TEST(Lamb8, stays_within_two_percent_of_double_precision_for_100_steps) {
    const OptimizerConfig config = lamb8();
    const auto groups = mixed_groups();
    Random random(3);
    std::vector<float> parameters = noise(mixed_elements, random, 0.05);
    std::vector<double> p(parameters.begin(), parameters.end());
    std::vector<double> m(p.size());
    std::vector<double> v(p.size());
    const std::vector<float> drift = noise(mixed_elements, random, 0.01);
    OwnedMoments owned(config, groups, mixed_elements);
    for (std::uint64_t step_number = 0; step_number < 100; ++step_number) {
        std::vector<float> gradient = noise(mixed_elements, random, 0.01);
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += drift[i];
        double squares = 0;
        for (const float x : gradient) squares += double{x} * x;
        const double scale = std::min(1.0, 4 / (std::sqrt(squares) + 1e-6));
        (void)step(config, groups, step_number, parameters, gradient, owned.views());
        for (const ParameterGroup& group : groups) {
            const double decay = group.decay ? config.weight_decay : 0;
            std::vector<double> u(group.count);
            double p_squares = 0;
            double u_squares = 0;
            for (std::size_t i = 0; i < group.count; ++i) {
                const std::size_t at = group.offset + i;
                const double g = gradient[at] * scale;
                m[at] = config.beta1 * m[at] + (1 - config.beta1) * g;
                v[at] = config.beta2 * v[at] + (1 - config.beta2) * g * g;
                u[i] = m[at] / (std::sqrt(v[at]) + config.epsilon) + decay * p[at];
                p_squares += p[at] * p[at];
                u_squares += u[i] * u[i];
            }
            const double rate = config.schedule.peak * std::sqrt(p_squares / u_squares);
            for (std::size_t i = 0; i < group.count; ++i) p[group.offset + i] -= rate * u[i];
        }
    }
    double apart = 0;
    double length = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        apart += (parameters[i] - p[i]) * (parameters[i] - p[i]);
        length += p[i] * p[i];
    }
    EXPECT_LT(std::sqrt(apart / length), 0.02);
    EXPECT_GT(std::sqrt(apart / length), 1e-6);  // codes are in use
}

std::uint64_t hash_of_bytes(const void* data, std::size_t size, std::uint64_t hash) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

std::uint64_t hash_after_steps(const ParallelFor& parallel_for) {
    const auto groups = mixed_groups();
    Random random(5);
    std::vector<float> parameters = noise(mixed_elements, random, 0.05);
    OwnedMoments owned(lamb8(), groups, mixed_elements);
    for (std::uint64_t i = 0; i < 5; ++i) {
        const auto gradient = noise(mixed_elements, random, 0.1);
        (void)step(lamb8(), groups, i, parameters, gradient, owned.views(), parallel_for);
    }
    std::uint64_t hash = hash_of_bytes(parameters.data(), 4 * parameters.size(), 1);
    for (const MomentView& moment : owned.views()) {
        hash = hash_of_bytes(moment.codes.data(), moment.codes.size(), hash);
        hash = hash_of_bytes(moment.scales.data(), 4 * moment.scales.size(), hash);
        hash = hash_of_bytes(moment.values.data(), 4 * moment.values.size(), hash);
    }
    return hash;
}

TEST(Lamb8, has_the_same_bits_on_every_simd_target_and_in_any_order_of_tasks) {
    const std::uint64_t golden = 0x280c2a47a629270d;
    hwy::SetSupportedTargetsForTest(0);
    for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        SCOPED_TRACE(hwy::TargetName(rest & -rest));
        hwy::SetSupportedTargetsForTest(rest & -rest);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        const std::uint64_t hash = hash_after_steps(run_in_order);
        EXPECT_EQ(hash, golden) << fmt::format("0x{:016x}", hash);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const ParallelFor backwards = [](std::size_t count,
                                     const std::function<void(std::size_t)>& task) {
        for (std::size_t i = count; i-- > 0;) task(i);
    };
    EXPECT_EQ(hash_after_steps(backwards), golden);
}

TEST(Lamb8, is_refused_for_other_optimizers) {
    OptimizerConfig config = lamb8();
    EXPECT_TRUE(check(config));
    config.kind = OptimizerKind::adamw;
    EXPECT_FALSE(check(config));
}

TEST(ParameterGroup, stays_untouched_until_its_global_step) {
    const std::vector<ParameterGroup> groups = {
        {.name = "free", .offset = 0, .count = 4},
        {.name = "frozen", .offset = 4, .count = 4, .frozen_until = 2}};
    const OptimizerConfig config{.schedule = {.peak = 0.1}, .gradient_norm_max = 1};
    std::vector<float> parameters(8, 1.0f);
    std::vector<float> momentum(8, 0.0f);
    const std::vector<float> gradient(8, 0.25f);
    const std::vector<std::span<float>> moments = {momentum};
    for (std::uint64_t global_step = 0; global_step < 3; ++global_step) {
        const UpdateReport told = step(config, groups, global_step, parameters, gradient, moments);
        EXPECT_NEAR(told.gradient_norm, global_step < 2 ? 0.5 : std::sqrt(0.5), 1e-9);
        EXPECT_EQ(parameters[4] == 1.0f, global_step < 2) << global_step;
        EXPECT_EQ(momentum[4] == 0.0f, global_step < 2) << global_step;
        EXPECT_LT(parameters[0], 1.0f);
    }
}

TEST(ParameterGroup, has_rows_of_length_one_after_a_step) {
    const std::vector<ParameterGroup> groups = {
        {.name = "prototypes", .offset = 1, .count = 6, .unit_rows = 3}};
    std::vector<float> parameters = {5, 3, 4, 0, 0, 0, 0};
    const std::vector<float> gradient(7, 0.0f);
    (void)step({.momentum = 0}, groups, 0, parameters, gradient, std::span<const MomentView>());
    EXPECT_EQ(parameters, (std::vector<float>{5, 0.6f, 0.8f, 0, 0, 0, 0}));
    parameters = {5, 3, 4, 0, 0, 0, 0};
    const std::vector<ParameterGroup> frozen = {
        {.name = "prototypes", .offset = 1, .count = 6, .frozen_until = 9, .unit_rows = 3}};
    const std::vector<float> some(7, 1.0f);
    (void)step({.momentum = 0}, frozen, 0, parameters, some, std::span<const MomentView>());
    EXPECT_EQ(parameters, (std::vector<float>{5, 0.6f, 0.8f, 0, 0, 0, 0})) << "frozen ones, too";
    const std::vector<ParameterGroup> broken = {{.name = "p", .count = 7, .unit_rows = 3}};
    EXPECT_FALSE(check(broken, 7));
}

// The formula in double precision, for one group: a = trust ‖p‖ / (‖g‖ + decay ‖p‖ + epsilon), at
// most 1 of the rate where it clips; momentum m = µ m + a (g + decay p); p = p - rate m.
struct LarcFormula {
    const OptimizerConfig& config;
    std::vector<double> p;
    std::vector<double> m = std::vector<double>(p.size());

    static double norm(const std::vector<double>& x) {
        double sum = 0;
        for (const double value : x) sum += value * value;
        return std::sqrt(sum);
    }
    void step(const std::vector<double>& g, double rate) {
        const double length = norm(p);
        double a = config.larc_trust * length /
                   (norm(g) + config.weight_decay * length + config.larc_epsilon);
        if (config.larc_clip) a = std::min(a / rate, 1.0);
        for (std::size_t i = 0; i < p.size(); ++i) {
            m[i] = config.momentum * m[i] + a * (g[i] + config.weight_decay * p[i]);
            p[i] -= rate * m[i];
        }
    }
};

double relative_gap(const std::vector<float>& ours, const std::vector<double>& theirs) {
    std::vector<double> gap;
    for (std::size_t i = 0; i < ours.size(); ++i) gap.push_back(ours[i] - theirs[i]);
    return LarcFormula::norm(gap) / LarcFormula::norm(theirs);
}

TEST(Larc, follows_the_formula_to_a_millionth_with_and_without_clipping) {
    const std::vector<ParameterGroup> groups = {{.name = "w", .offset = 0, .count = 5000}};
    for (const bool clips : {false, true})
        for (const double size : {0.001, 1.0, 100.0}) {  // of gradients
            SCOPED_TRACE(fmt::format("clips {}, gradients of {}", clips, size));
            const OptimizerConfig config{
                .schedule = {.peak = 2.4, .warmup_steps = 5, .warmup_start = 0.3},
                .weight_decay = 1e-6,
                .larc = true,
                .larc_clip = clips,
                .larc_trust = 0.001};
            Random random(3);
            std::vector<float> parameters(5000);
            for (float& value : parameters) value = static_cast<float>(random.normal() * 0.05);
            std::vector<float> momentum(5000);
            LarcFormula formula{config, {parameters.begin(), parameters.end()}};
            for (std::uint64_t step = 0; step < 10; ++step) {
                std::vector<float> gradient(5000);
                for (float& value : gradient) value = static_cast<float>(random.normal() * size);
                const MomentView moment{.values = momentum};
                (void)optim::step(
                    config, groups, step, parameters, gradient, std::span(&moment, 1));
                formula.step({gradient.begin(), gradient.end()},
                             learning_rate(config.schedule, step));
            }
            EXPECT_LT(relative_gap(momentum, formula.m), 1e-6);
            EXPECT_LT(relative_gap(parameters, formula.p), 1e-6);
        }
}

}  // namespace
}  // namespace dedloc::optim
