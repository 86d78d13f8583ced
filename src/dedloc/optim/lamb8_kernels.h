// LAMB's loops for moments of 8 bits, for one chunk each. Internal to the module; see
// optimizer_kernels.h. Callers hold a FloatEnvironmentGuard.
//
// The direction is computed twice from the old codes, once for its norm and once to be applied, and
// from moments that have not been rounded yet. So no vector of fp32 moments exists at any time:
// those of a block stay in the second-level cache.

#pragma once
#include <cstddef>
#include <cstdint>

#include "dedloc/optim/optimizer_kernels.h"

namespace dedloc::optim {

inline constexpr std::size_t block8_elements = 4096;

// A chunk's moments: a code for each element, a scale for each block8_elements of them.
struct Moments8 {
    std::uint8_t* exp_avg_codes;
    float* exp_avg_scales;
    std::uint8_t* exp_avg_sq_codes;
    float* exp_avg_sq_scales;
};

// The sum of squares of the direction u. Nothing is written.
double chunk_lamb8_squares(const AdamScalars& scalars,
                           std::size_t count,
                           const float* parameters,
                           const float* gradient,
                           const Moments8& moments);

// parameters += minus_rate * u; the moments are replaced by the new ones.
void chunk_lamb8_apply(const AdamScalars& scalars,
                       std::size_t count,
                       float* parameters,
                       const float* gradient,
                       const Moments8& moments);

}  // namespace dedloc::optim
