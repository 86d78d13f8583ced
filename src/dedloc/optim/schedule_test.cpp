#include "dedloc/optim/schedule.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <numbers>

namespace dedloc::optim {
namespace {

TEST(Schedule, constant_with_warm_up_moves_from_the_first_step) {
    const Schedule schedule{.kind = ScheduleKind::constant, .peak = 0.8, .warmup_steps = 4};
    EXPECT_EQ(learning_rate(schedule, 0), 0.2);
    EXPECT_EQ(learning_rate(schedule, 1), 0.4);
    EXPECT_EQ(learning_rate(schedule, 3), 0.8);
    EXPECT_EQ(learning_rate(schedule, 4), 0.8);
    EXPECT_EQ(learning_rate(schedule, std::uint64_t{1} << 62), 0.8);
    EXPECT_EQ(learning_rate({.peak = 0.5}, 0), 0.5);
}

TEST(Schedule, warm_up_from_a_start_value_is_a_straight_line_to_the_peak) {
    const Schedule schedule{.kind = ScheduleKind::cosine,
                            .peak = 2.4,
                            .warmup_steps = 500,
                            .warmup_start = 0.3,
                            .total_steps = 5000,
                            .final_fraction = 0.002};
    EXPECT_EQ(learning_rate(schedule, 0), 0.3);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.3 + 100 * 2.1 / 499);
    EXPECT_EQ(learning_rate(schedule, 499), 2.4);
    EXPECT_EQ(learning_rate(schedule, 500), 2.4);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 5000), 0.0048);
    EXPECT_EQ(learning_rate({.peak = 1, .warmup_steps = 1, .warmup_start = 0.5}, 0), 0.5);
    EXPECT_FALSE(check({.warmup_start = -1}));
}

TEST(Schedule, linear_falls_to_its_end_and_stays) {
    const Schedule schedule{.kind = ScheduleKind::linear,
                            .peak = 1.0,
                            .warmup_steps = 10,
                            .total_steps = 110,
                            .final_fraction = 0.1};
    EXPECT_EQ(learning_rate(schedule, 9), 1.0);
    EXPECT_EQ(learning_rate(schedule, 10), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.55);
    EXPECT_EQ(learning_rate(schedule, 110), 0.1);
    EXPECT_EQ(learning_rate(schedule, 100000), 0.1);
}

TEST(Schedule, cosine_passes_its_known_points) {
    const Schedule schedule{
        .kind = ScheduleKind::cosine, .peak = 2.0, .warmup_steps = 0, .total_steps = 120};
    EXPECT_EQ(learning_rate(schedule, 0), 2.0);
    EXPECT_EQ(learning_rate(schedule, 60), 1.0);
    EXPECT_NEAR(learning_rate(schedule, 40), 1.5, 1e-15);
    EXPECT_NEAR(learning_rate(schedule, 80), 0.5, 1e-15);
    EXPECT_EQ(learning_rate(schedule, 120), 0.0);
    EXPECT_EQ(learning_rate(schedule, 121), 0.0);
}

TEST(Schedule, never_rises_after_its_warm_up) {
    for (const ScheduleKind kind : {ScheduleKind::linear, ScheduleKind::cosine}) {
        const Schedule schedule{
            .kind = kind, .peak = 0.1, .warmup_steps = 100, .total_steps = 12345};
        for (std::uint64_t step = 100; step < 12400; ++step) {
            ASSERT_LE(learning_rate(schedule, step + 1), learning_rate(schedule, step)) << step;
            ASSERT_GE(learning_rate(schedule, step), 0) << step;
        }
    }
}

TEST(Schedule, cosine_agrees_with_the_library_to_the_last_bits) {
    for (int i = 0; i <= 100000; ++i) {
        const double x = i / 100000.0;
        ASSERT_NEAR(cosine_of_pi_times(x), std::cos(std::numbers::pi * x), 0x1p-51) << x;
    }
    EXPECT_EQ(cosine_of_pi_times(0), 1.0);
    EXPECT_EQ(cosine_of_pi_times(0.5), 0.0);
    EXPECT_EQ(cosine_of_pi_times(1), -1.0);
}

TEST(Schedule, powers_agree_with_the_library) {
    for (const double base : {0.9, 0.95, 0.98, 0.999, 0.9999}) {
        for (std::uint64_t exponent = 0; exponent < 3000; exponent += 7) {
            const double wanted = std::pow(base, static_cast<double>(exponent));
            ASSERT_NEAR(integer_power(base, exponent) / wanted, 1.0, 1e-12);
        }
    }
    EXPECT_EQ(integer_power(0.9, 0), 1.0);
    EXPECT_EQ(integer_power(0.0, 3), 0.0);
    EXPECT_EQ(integer_power(2.0, 62), 0x1p62);
    EXPECT_GE(integer_power(0.9, ~std::uint64_t{0}), 0.0);
}

// The same bits on every CPU and compiler: written down once.
TEST(Schedule, golden_bits) {
    const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
    const Schedule cosine{.kind = ScheduleKind::cosine,
                          .peak = 0.05,
                          .warmup_steps = 30,
                          .total_steps = 1000,
                          .final_fraction = 0.01};
    EXPECT_EQ(bits(learning_rate(cosine, 7)), bits(0x1.b4e81b4e81b4fp-7));
    EXPECT_EQ(bits(learning_rate(cosine, 77)), 4587325335735620874u);
    EXPECT_EQ(bits(learning_rate(cosine, 777)), 4574350904824993354u);
    EXPECT_EQ(bits(integer_power(0.999, 4321)), 4578796278774356928u);
}

TEST(Schedule, wrong_numbers_are_refused_with_a_sentence) {
    EXPECT_TRUE(check(Schedule{}));
    EXPECT_FALSE(check(Schedule{.peak = -1}));
    EXPECT_FALSE(check(Schedule{.peak = NAN}));
    EXPECT_FALSE(check(Schedule{.final_fraction = 1.5}));
    const Ok late =
        check(Schedule{.kind = ScheduleKind::cosine, .warmup_steps = 10, .total_steps = 10});
    EXPECT_EQ(late.error().message(),
              "the cosine schedule ends at step 10, before its warm-up of 10 steps");
    const Ok endless = check(Schedule{.kind = ScheduleKind::linear, .warmup_steps = 10});
    EXPECT_EQ(endless.error().message(),
              "the linear schedule needs the step at which it has fallen to its end; write beside "
              "it, for instance: total_steps = 1000");
    EXPECT_EQ(*schedule_from_string("cosine"), ScheduleKind::cosine);
    EXPECT_EQ(to_string(ScheduleKind::linear), "linear");
    EXPECT_FALSE(schedule_from_string("steps"));
}

TEST(Schedule, StepsDownAfterSoManySteps) {
    const Schedule schedule{.kind = ScheduleKind::step,
                            .peak = 1.0,
                            .warmup_steps = 2,
                            .decay_every = 3,
                            .decay_factor = 0.5};
    ASSERT_TRUE(check(schedule));
    const double expected[] = {0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25};
    for (std::uint64_t step = 0; step < std::size(expected); ++step)
        EXPECT_EQ(learning_rate(schedule, step), expected[step]) << step;
    EXPECT_EQ(learning_rate(schedule, 1'000'000), 0.0);
    EXPECT_FALSE(check(Schedule{.kind = ScheduleKind::step}));
    EXPECT_FALSE(
        check(Schedule{.kind = ScheduleKind::step, .decay_every = 3, .decay_factor = 1.5}));
}

}  // namespace
}  // namespace dedloc::optim
