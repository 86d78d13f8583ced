// The formulas of the optimizers' loops over one vector, for the files that Highway compiles once
// for each CPU target. Included by optimizer_kernels.cpp and lamb8_kernels.cpp only.

#if defined(DEDLOC_OPTIM_FORMULAS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DEDLOC_OPTIM_FORMULAS_INL_H
#undef DEDLOC_OPTIM_FORMULAS_INL_H
#else
#define DEDLOC_OPTIM_FORMULAS_INL_H
#endif

#include <hwy/highway.h>

#include "dedloc/optim/optimizer_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace dedloc::optim::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;

// a + x * factor, rounded twice.
template <typename D, typename V = hn::Vec<D>>
HWY_INLINE V add_scaled(D d, V a, V x, float factor) {
    return hn::Add(a, hn::Mul(x, hn::Set(d, factor)));
}

// The moments after `gradient`, from the old ones.
template <typename D, typename V = hn::Vec<D>>
HWY_INLINE void next_moments(D d, const AdamScalars& s, V gradient, V& m, V& v) {
    const auto g = hn::Mul(gradient, hn::Set(d, s.gradient_scale));
    m = add_scaled(d, hn::Mul(m, hn::Set(d, s.beta1)), g, s.one_less_beta1);
    v = hn::Mul(v, hn::Set(d, s.beta2));
    v = hn::Add(v, hn::Mul(hn::Mul(hn::Set(d, s.one_less_beta2), g), g));
}

// LAMB's direction: m / (sqrt(v) + epsilon) + weight_decay * p.
template <typename D, typename V = hn::Vec<D>>
HWY_INLINE V direction(D d, const AdamScalars& s, V p, V m, V v) {
    const auto u = hn::Div(m, hn::Add(hn::Sqrt(v), hn::Set(d, s.epsilon)));
    return s.weight_decay != 0 ? add_scaled(d, u, p, s.weight_decay) : u;
}

// The 16 lanes of a sum of squares. A float's square is exact in a double.
struct Lanes {
    double sum[16] = {};

    // count is a multiple of 16, except in the last call.
    HWY_INLINE void add(const float* HWY_RESTRICT x, std::size_t count) {
        const hn::CappedTag<double, 8> d64;
        const hn::Rebind<float, decltype(d64)> d32;
        const std::size_t lanes = hn::Lanes(d64);  // a power of two, at most 8
        const std::size_t rows = count / 16;
        for (std::size_t lane = 0; lane < 16; lane += 2 * lanes) {
            auto first = hn::LoadU(d64, sum + lane);
            auto second = hn::LoadU(d64, sum + lane + lanes);
            for (std::size_t row = 0; row < rows; ++row) {
                const float* at = x + 16 * row + lane;
                const auto a = hn::PromoteTo(d64, hn::LoadU(d32, at));
                const auto b = hn::PromoteTo(d64, hn::LoadU(d32, at + lanes));
                first = hn::Add(first, hn::Mul(a, a));
                second = hn::Add(second, hn::Mul(b, b));
            }
            hn::StoreU(first, d64, sum + lane);
            hn::StoreU(second, d64, sum + lane + lanes);
        }
        for (std::size_t i = rows * 16; i < count; ++i) {
            const double value = x[i];
            const double square = value * value;
            sum[i % 16] = sum[i % 16] + square;
        }
    }

    double joined() {
        for (std::size_t width = 8; width >= 1; width /= 2) {
            for (std::size_t j = 0; j < width; ++j) sum[j] = sum[j] + sum[j + width];
        }
        return sum[0];
    }
};

}  // namespace
}  // namespace dedloc::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
