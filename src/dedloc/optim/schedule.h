// Learning rates and the little arithmetic of schedules and bias corrections, without libm.
//
// libm's cos, exp and pow differ between systems in the last bit; a learning rate that differs in
// the last bit gives two peers different parameters. So: multiplications, additions, divisions
// and square roots only, in double precision, each rounded by itself.
//
// Thread: any. Everything is a pure function of the global step, so that a newcomer needs no
//         schedule state.

#pragma once
#include <cstdint>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::optim {

enum class ScheduleKind : std::uint8_t {
    constant = 0,  // warm-up, then the peak for ever
    linear = 1,    // warm-up, then straight down to final_fraction at total_steps
    cosine = 2,    // warm-up, then half a cosine down to final_fraction at total_steps
    step = 3,      // warm-up, then times decay_factor after every decay_every steps
};

std::string_view to_string(ScheduleKind kind);
Result<ScheduleKind> schedule_from_string(std::string_view text);  // bad_input: names all

struct Schedule {
    ScheduleKind kind = ScheduleKind::constant;
    double peak = 0.1;
    // Step s < warmup_steps uses peak * (s + 1) / warmup_steps: the first step already moves.
    std::uint64_t warmup_steps = 0;
    // Above 0: the warm-up is a straight line from here at step 0 to the peak at its last step.
    double warmup_start = 0;
    std::uint64_t total_steps = 0;  // linear, cosine: where the fall ends; > warmup_steps
    double final_fraction = 0;      // of the peak, reached at total_steps and kept after it
    std::uint64_t decay_every = 0;  // step: > 0
    double decay_factor = 0.1;      // step: from 0 to 1
};

// The learning rate of a global step, counted from 0.
double learning_rate(const Schedule& schedule, std::uint64_t global_step);

// bad_input with the field's name when a number is negative, not finite or out of order.
Ok check(const Schedule& schedule);

// base^exponent by repeated squaring: at most 128 multiplications.
double integer_power(double base, std::uint64_t exponent);

// cos(pi * x) for 0 <= x <= 1, within 2^-51; exact at 0, 1/2 and 1.
double cosine_of_pi_times(double x);

}  // namespace dedloc::optim
