#include "dedloc/optim/schedule.h"

#include <array>
#include <cmath>

#include "dedloc/base/float_environment.h"

namespace dedloc::optim {
namespace {

constexpr double pi = 3.141592653589793238;

constexpr std::array<std::string_view, 4> schedule_names = {"constant", "linear", "cosine", "step"};

// Taylor's series in y^2, Horner's way; |y| <= pi/4, where the first term left out is below 2^-58.
double cosine_near_zero(double y) {
    const double z = y * y;
    double sum = 1.0 / 20922789888000.0;  // 16!
    sum = sum * z - 1.0 / 87178291200.0;
    sum = sum * z + 1.0 / 479001600.0;
    sum = sum * z - 1.0 / 3628800.0;
    sum = sum * z + 1.0 / 40320.0;
    sum = sum * z - 1.0 / 720.0;
    sum = sum * z + 1.0 / 24.0;
    sum = sum * z - 1.0 / 2.0;
    return sum * z + 1.0;
}

double sine_near_zero(double y) {
    const double z = y * y;
    double sum = -1.0 / 1307674368000.0;  // 15!
    sum = sum * z + 1.0 / 6227020800.0;
    sum = sum * z - 1.0 / 39916800.0;
    sum = sum * z + 1.0 / 362880.0;
    sum = sum * z - 1.0 / 5040.0;
    sum = sum * z + 1.0 / 120.0;
    sum = sum * z - 1.0 / 6.0;
    return y + y * (sum * z);
}

// From warmup_start at step 0 to the peak at the warm-up's last step.
double warming_rate(const Schedule& schedule, std::uint64_t global_step) {
    if (schedule.warmup_steps == 1) return schedule.warmup_start;
    const auto last = static_cast<double>(schedule.warmup_steps - 1);
    const double way = static_cast<double>(global_step) / last;
    return schedule.warmup_start + way * (schedule.peak - schedule.warmup_start);
}

}  // namespace

std::string_view to_string(ScheduleKind kind) {
    const auto index = static_cast<std::size_t>(kind);
    DEDLOC_CHECK(index < schedule_names.size());
    return schedule_names[index];
}

Result<ScheduleKind> schedule_from_string(std::string_view text) {
    for (std::size_t i = 0; i < schedule_names.size(); ++i) {
        if (schedule_names[i] == text) return static_cast<ScheduleKind>(i);
    }
    return make_error(ErrorKind::bad_input,
                      "'{}' is not a schedule; use one of constant, linear, cosine, step",
                      text.substr(0, 32));
}

double integer_power(double base, std::uint64_t exponent) {
    double result = 1;
    for (; exponent != 0; exponent >>= 1) {
        if ((exponent & 1) != 0) result = result * base;
        base = base * base;
    }
    return result;
}

double cosine_of_pi_times(double x) {
    if (x > 0.5) return -cosine_of_pi_times(1.0 - x);
    if (x <= 0.25) return cosine_near_zero(pi * x);
    return sine_near_zero(pi * (0.5 - x));
}

double learning_rate(const Schedule& schedule, std::uint64_t global_step) {
    const FloatEnvironmentGuard guard;
    if (global_step < schedule.warmup_steps) {
        if (schedule.warmup_start > 0) return warming_rate(schedule, global_step);
        return schedule.peak * static_cast<double>(global_step + 1) /
               static_cast<double>(schedule.warmup_steps);
    }
    if (schedule.kind == ScheduleKind::constant) return schedule.peak;
    if (schedule.kind == ScheduleKind::step) {
        const std::uint64_t falls = (global_step - schedule.warmup_steps) / schedule.decay_every;
        return schedule.peak * integer_power(schedule.decay_factor, falls);
    }
    const double last = schedule.peak * schedule.final_fraction;
    if (global_step >= schedule.total_steps) return last;
    const auto way = static_cast<double>(global_step - schedule.warmup_steps);
    const auto length = static_cast<double>(schedule.total_steps - schedule.warmup_steps);
    const double progress = way / length;
    const double left = schedule.kind == ScheduleKind::linear
                            ? 1.0 - progress
                            : 0.5 * (1.0 + cosine_of_pi_times(progress));
    return last + (schedule.peak - last) * left;
}

Ok check(const Schedule& schedule) {
    if (!std::isfinite(schedule.peak) || schedule.peak < 0) {
        return make_error(ErrorKind::bad_input,
                          "the learning rate is {}; it must be a number from 0 on",
                          schedule.peak);
    }
    if (!(schedule.warmup_start >= 0 && std::isfinite(schedule.warmup_start))) {
        return make_error(ErrorKind::bad_input,
                          "warmup_start is {}; it must be a number from 0 on",
                          schedule.warmup_start);
    }
    if (!(schedule.final_fraction >= 0 && schedule.final_fraction <= 1)) {
        return make_error(ErrorKind::bad_input,
                          "final_fraction is {}; it must lie between 0 and 1",
                          schedule.final_fraction);
    }
    if (schedule.kind == ScheduleKind::step) {
        if (schedule.decay_every == 0)
            return make_error(ErrorKind::bad_input,
                              "the step schedule needs the number of steps after which the "
                              "learning rate falls; write beside it, for instance: decay_every = "
                              "100");
        if (!(schedule.decay_factor >= 0 && schedule.decay_factor <= 1))
            return make_error(ErrorKind::bad_input,
                              "decay_factor is {}; it must lie between 0 and 1",
                              schedule.decay_factor);
        return {};
    }
    if (schedule.kind != ScheduleKind::constant && schedule.total_steps == 0) {
        return make_error(ErrorKind::bad_input,
                          "the {} schedule needs the step at which it has fallen to its end; write "
                          "beside it, for instance: total_steps = 1000",
                          to_string(schedule.kind));
    }
    if (schedule.kind != ScheduleKind::constant && schedule.total_steps <= schedule.warmup_steps) {
        return make_error(ErrorKind::bad_input,
                          "the {} schedule ends at step {}, before its warm-up of {} steps",
                          to_string(schedule.kind),
                          schedule.total_steps,
                          schedule.warmup_steps);
    }
    return {};
}

}  // namespace dedloc::optim
