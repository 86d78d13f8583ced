// The loops of optimizer.cpp, for one chunk each. Internal to the room.
//
// Scalars come in as the floats that are used; nothing is computed from them here, so that the
// double arithmetic of a step is in one place. Callers hold a FloatEnvironmentGuard.

#pragma once
#include <cstddef>

namespace dedloc::optim {

struct SgdScalars {
    float gradient_scale;  // of clipping; 1: none
    float weight_decay;    // 0: none
    float larc_scale;      // multiplies gradient + decay; 1: none
    float momentum;        // 0: `momentum` may be null
    float minus_rate;
    bool nesterov;
};

struct AdamScalars {
    float gradient_scale;
    float keep;  // adamw: 1 - rate * weight decay
    float beta1;
    float one_less_beta1;
    float beta2;
    float one_less_beta2;
    float bias2_root;  // adamw: sqrt(1 - beta2^t)
    float epsilon;
    float minus_rate;    // adamw: -rate / (1 - beta1^t); lamb: the whole factor of the direction
    float weight_decay;  // lamb
};

// Sum of x[i]^2: 16 lanes in double precision.
double chunk_sum_of_squares(const float* x, std::size_t count);

void chunk_sgd(const SgdScalars& scalars,
               std::size_t count,
               float* parameters,
               const float* gradient,
               float* momentum);

void chunk_adamw(const AdamScalars& scalars,
                 std::size_t count,
                 float* parameters,
                 const float* gradient,
                 float* exp_avg,
                 float* exp_avg_sq);

// Updates the moments; returns the sum of squares of the direction u.
double chunk_lamb_moments(const AdamScalars& scalars,
                          std::size_t count,
                          const float* parameters,
                          const float* gradient,
                          float* exp_avg,
                          float* exp_avg_sq);

// parameters += minus_rate * u, with u computed again from what chunk_lamb_moments left.
void chunk_lamb_apply(const AdamScalars& scalars,
                      std::size_t count,
                      float* parameters,
                      const float* exp_avg,
                      const float* exp_avg_sq);

}  // namespace dedloc::optim
