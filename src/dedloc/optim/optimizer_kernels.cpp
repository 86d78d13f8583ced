// Compiled once for each CPU target, chosen at run time. Formulas are written once, over a vector
// type; what does not fill a vector goes through vectors of one lane.

#include "dedloc/optim/optimizer_kernels.h"

#include <algorithm>

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/optim/optimizer_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

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

template <typename D>
HWY_INLINE void sgd_at(D d,
                       const SgdScalars& s,
                       float* HWY_RESTRICT parameters,
                       const float* HWY_RESTRICT gradient,
                       float* HWY_RESTRICT momentum) {
    const auto p = hn::LoadU(d, parameters);
    auto g = hn::Mul(hn::LoadU(d, gradient), hn::Set(d, s.gradient_scale));
    if (s.weight_decay != 0) g = add_scaled(d, g, p, s.weight_decay);
    g = hn::Mul(g, hn::Set(d, s.larc_scale));
    if (s.momentum != 0) {
        const auto old = hn::LoadU(d, momentum);
        const auto buffer = hn::Add(hn::Mul(old, hn::Set(d, s.momentum)), g);
        hn::StoreU(buffer, d, momentum);
        g = s.nesterov ? add_scaled(d, g, buffer, s.momentum) : buffer;
    }
    hn::StoreU(add_scaled(d, p, g, s.minus_rate), d, parameters);
}

HWY_NOINLINE void sgd(const SgdScalars& scalars,
                      std::size_t count,
                      float* parameters,
                      const float* gradient,
                      float* momentum) {
    const SgdScalars s = scalars;
    const std::size_t lanes = hn::Lanes(Full());
    std::size_t i = 0;
    const auto moment = [&] { return s.momentum != 0 ? momentum + i : nullptr; };
    for (; i + lanes <= count; i += lanes) {
        sgd_at(Full(), s, parameters + i, gradient + i, moment());
    }
    for (; i < count; ++i) sgd_at(One(), s, parameters + i, gradient + i, moment());
}

template <typename D, typename V = hn::Vec<D>>
HWY_INLINE void update_moments(D d,
                               const AdamScalars& s,
                               const float* HWY_RESTRICT gradient,
                               float* HWY_RESTRICT exp_avg,
                               float* HWY_RESTRICT exp_avg_sq,
                               V& m,
                               V& v) {
    const auto g = hn::Mul(hn::LoadU(d, gradient), hn::Set(d, s.gradient_scale));
    m = hn::Mul(hn::LoadU(d, exp_avg), hn::Set(d, s.beta1));
    m = add_scaled(d, m, g, s.one_less_beta1);
    v = hn::Mul(hn::LoadU(d, exp_avg_sq), hn::Set(d, s.beta2));
    v = hn::Add(v, hn::Mul(hn::Mul(hn::Set(d, s.one_less_beta2), g), g));
    hn::StoreU(m, d, exp_avg);
    hn::StoreU(v, d, exp_avg_sq);
}

template <typename D>
HWY_INLINE void adamw_at(D d,
                         const AdamScalars& s,
                         float* HWY_RESTRICT parameters,
                         const float* HWY_RESTRICT gradient,
                         float* HWY_RESTRICT exp_avg,
                         float* HWY_RESTRICT exp_avg_sq) {
    auto m = hn::Zero(d);
    auto v = hn::Zero(d);
    update_moments(d, s, gradient, exp_avg, exp_avg_sq, m, v);
    const auto p = hn::Mul(hn::LoadU(d, parameters), hn::Set(d, s.keep));
    const auto root = hn::Div(hn::Sqrt(v), hn::Set(d, s.bias2_root));
    const auto denominator = hn::Add(root, hn::Set(d, s.epsilon));
    const auto change = hn::Div(hn::Mul(hn::Set(d, s.minus_rate), m), denominator);
    hn::StoreU(hn::Add(p, change), d, parameters);
}

HWY_NOINLINE void adamw(const AdamScalars& scalars,
                        std::size_t count,
                        float* parameters,
                        const float* gradient,
                        float* exp_avg,
                        float* exp_avg_sq) {
    const AdamScalars s = scalars;
    const std::size_t lanes = hn::Lanes(Full());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        adamw_at(Full(), s, parameters + i, gradient + i, exp_avg + i, exp_avg_sq + i);
    }
    for (; i < count; ++i) {
        adamw_at(One(), s, parameters + i, gradient + i, exp_avg + i, exp_avg_sq + i);
    }
}

// LAMB's direction: m / (sqrt(v) + epsilon) + weight_decay * p.
template <typename D, typename V = hn::Vec<D>>
HWY_INLINE V direction(D d, const AdamScalars& s, V p, V m, V v) {
    const auto u = hn::Div(m, hn::Add(hn::Sqrt(v), hn::Set(d, s.epsilon)));
    return s.weight_decay != 0 ? add_scaled(d, u, p, s.weight_decay) : u;
}

template <typename D>
HWY_INLINE void lamb_moments_at(D d,
                                const AdamScalars& s,
                                const float* HWY_RESTRICT parameters,
                                const float* HWY_RESTRICT gradient,
                                float* HWY_RESTRICT exp_avg,
                                float* HWY_RESTRICT exp_avg_sq,
                                float* HWY_RESTRICT u) {
    auto m = hn::Zero(d);
    auto v = hn::Zero(d);
    update_moments(d, s, gradient, exp_avg, exp_avg_sq, m, v);
    hn::StoreU(direction(d, s, hn::LoadU(d, parameters), m, v), d, u);
}

template <typename D>
HWY_INLINE void lamb_apply_at(D d,
                              const AdamScalars& s,
                              float* HWY_RESTRICT parameters,
                              const float* HWY_RESTRICT exp_avg,
                              const float* HWY_RESTRICT exp_avg_sq) {
    const auto p = hn::LoadU(d, parameters);
    const auto u = direction(d, s, p, hn::LoadU(d, exp_avg), hn::LoadU(d, exp_avg_sq));
    hn::StoreU(add_scaled(d, p, u, s.minus_rate), d, parameters);
}

HWY_NOINLINE void lamb_apply(const AdamScalars& scalars,
                             std::size_t count,
                             float* parameters,
                             const float* exp_avg,
                             const float* exp_avg_sq) {
    const AdamScalars s = scalars;
    const std::size_t lanes = hn::Lanes(Full());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        lamb_apply_at(Full(), s, parameters + i, exp_avg + i, exp_avg_sq + i);
    }
    for (; i < count; ++i) lamb_apply_at(One(), s, parameters + i, exp_avg + i, exp_avg_sq + i);
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

constexpr std::size_t block_elements = 1024;  // stays in the first-level cache

HWY_NOINLINE double sum_of_squares(const float* x, std::size_t count) {
    Lanes lanes;
    for (std::size_t i = 0; i < count; i += block_elements) {
        lanes.add(x + i, std::min(block_elements, count - i));
    }
    return lanes.joined();
}

HWY_NOINLINE double lamb_moments(const AdamScalars& scalars,
                                 std::size_t count,
                                 const float* parameters,
                                 const float* gradient,
                                 float* exp_avg,
                                 float* exp_avg_sq) {
    const AdamScalars s = scalars;
    const std::size_t lanes = hn::Lanes(Full());
    Lanes squares;
    alignas(64) float u[block_elements];
    for (std::size_t begin = 0; begin < count; begin += block_elements) {
        const std::size_t end = std::min(count, begin + block_elements);
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes) {
            lamb_moments_at(Full(),
                            s,
                            parameters + i,
                            gradient + i,
                            exp_avg + i,
                            exp_avg_sq + i,
                            u + (i - begin));
        }
        for (; i < end; ++i) {
            lamb_moments_at(One(),
                            s,
                            parameters + i,
                            gradient + i,
                            exp_avg + i,
                            exp_avg_sq + i,
                            u + (i - begin));
        }
        squares.add(u, end - begin);
    }
    return squares.joined();
}

}  // namespace
}  // namespace dedloc::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::optim {
namespace {

HWY_EXPORT(sum_of_squares);
HWY_EXPORT(sgd);
HWY_EXPORT(adamw);
HWY_EXPORT(lamb_moments);
HWY_EXPORT(lamb_apply);

}  // namespace

double chunk_sum_of_squares(const float* x, std::size_t count) {
    return HWY_DYNAMIC_DISPATCH(sum_of_squares)(x, count);
}

void chunk_sgd(const SgdScalars& scalars,
               std::size_t count,
               float* parameters,
               const float* gradient,
               float* momentum) {
    HWY_DYNAMIC_DISPATCH(sgd)(scalars, count, parameters, gradient, momentum);
}

void chunk_adamw(const AdamScalars& scalars,
                 std::size_t count,
                 float* parameters,
                 const float* gradient,
                 float* exp_avg,
                 float* exp_avg_sq) {
    HWY_DYNAMIC_DISPATCH(adamw)(scalars, count, parameters, gradient, exp_avg, exp_avg_sq);
}

double chunk_lamb_moments(const AdamScalars& scalars,
                          std::size_t count,
                          const float* parameters,
                          const float* gradient,
                          float* exp_avg,
                          float* exp_avg_sq) {
    return HWY_DYNAMIC_DISPATCH(lamb_moments)(
        scalars, count, parameters, gradient, exp_avg, exp_avg_sq);
}

void chunk_lamb_apply(const AdamScalars& scalars,
                      std::size_t count,
                      float* parameters,
                      const float* exp_avg,
                      const float* exp_avg_sq) {
    HWY_DYNAMIC_DISPATCH(lamb_apply)(scalars, count, parameters, exp_avg, exp_avg_sq);
}

}  // namespace dedloc::optim
#endif  // HWY_ONCE
