// The loops of Muon's step. Internal to the module; callers hold a FloatEnvironmentGuard.
//
// Every element of a product is a sum in the order of the inner index, each product and each sum
// rounded by itself: the same bits for any width of vectors and any cut into rows.

#pragma once
#include <cstddef>

namespace dedloc::optim {

struct MuonScalars {
    float gradient_scale;  // of clipping; 1: none
    float momentum;
    float one_less_momentum;
    bool nesterov;
};

// momentum = momentum * old + (1 - momentum) * gradient; `direction` is that, or with Nesterov the
// same mean once more of it and the gradient.
void chunk_muon_direction(const MuonScalars& scalars,
                          std::size_t count,
                          const float* gradient,
                          float* momentum,
                          float* direction);

// to = to * keep + from * factor.
void chunk_scale_and_add(std::size_t count, float keep, float factor, const float* from, float* to);

// out = a · b, of `rows` rows: a is rows × inner, b is inner × columns, row by row.
void rows_of_product(const float* a,
                     const float* b,
                     std::size_t rows,
                     std::size_t inner,
                     std::size_t columns,
                     float* out);

}  // namespace dedloc::optim
