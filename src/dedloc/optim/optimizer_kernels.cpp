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

#include "dedloc/optim/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dedloc::optim::HWY_NAMESPACE {
namespace {

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
    m = hn::LoadU(d, exp_avg);
    v = hn::LoadU(d, exp_avg_sq);
    next_moments(d, s, hn::LoadU(d, gradient), m, v);
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
