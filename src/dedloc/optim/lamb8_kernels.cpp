// Compiled once for each CPU target, chosen at run time.

#include "dedloc/optim/lamb8_kernels.h"

#include <algorithm>

#include "dedloc/optim/code_book.h"

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/optim/lamb8_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

#include "dedloc/optim/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dedloc::optim::HWY_NAMESPACE {
namespace {

template <typename D>
HWY_INLINE hn::Vec<D> decoded(D d,
                              const float* HWY_RESTRICT book,
                              const std::uint8_t* HWY_RESTRICT codes,
                              float scale) {
    const hn::Rebind<std::int32_t, D> places;
    const hn::Rebind<std::uint8_t, D> bytes;
    const auto at = hn::PromoteTo(places, hn::LoadU(bytes, codes));
    return hn::Mul(hn::GatherIndex(d, book, at), hn::Set(d, scale));
}

// CodeBook::nearest of every lane.
template <typename D>
HWY_INLINE void encode(D d, const CodeBook& book, hn::Vec<D> x, std::uint8_t* HWY_RESTRICT codes) {
    const hn::Rebind<std::int32_t, D> places;
    const hn::Rebind<std::uint8_t, D> bytes;
    const auto bits = hn::BitCast(places, x);
    const auto magnitude = hn::ShiftRight<16>(hn::BitCast(places, hn::Abs(x)));
    auto bucket = hn::Sub(magnitude, hn::Set(places, CodeBook::lowest_bits));
    bucket = hn::Max(bucket, hn::Zero(places));
    bucket = hn::Min(bucket, hn::Set(places, CodeBook::buckets_count - 1));
    const auto negative = hn::ShiftRight<31>(bits);  // all ones, or none
    bucket = hn::Add(bucket, hn::And(negative, hn::Set(places, CodeBook::buckets_count)));
    const auto code = hn::GatherIndex(places, book.first(), bucket);
    const auto threshold = hn::GatherIndex(d, book.thresholds(), code);
    const auto above = hn::IfThenElseZero(hn::Gt(x, threshold), hn::Set(d, 1.0f));
    const auto one_more = hn::ConvertTo(places, above);
    hn::StoreU(hn::DemoteTo(bytes, hn::Add(code, one_more)), bytes, codes);
}

// One block, and where its moments are.
struct Block {
    const AdamScalars& s;
    std::size_t count;
    const float* parameters;
    const float* gradient;
    std::uint8_t* m_codes;
    std::uint8_t* v_codes;
    float m_scale;
    float v_scale;
    const float* m_book = CodeBook::with_sign().values().data();
    const float* v_book = CodeBook::from_zero().values().data();

    template <typename D, typename V = hn::Vec<D>>
    HWY_INLINE V direction_at(D d, std::size_t i, V& m, V& v) const {
        m = decoded(d, m_book, m_codes + i, m_scale);
        v = decoded(d, v_book, v_codes + i, v_scale);
        next_moments(d, s, hn::LoadU(d, gradient + i), m, v);
        return direction(d, s, hn::LoadU(d, parameters + i), m, v);
    }
};

Block block_of(const AdamScalars& scalars,
               std::size_t begin,
               std::size_t count,
               const float* parameters,
               const float* gradient,
               const Moments8& moments) {
    return {.s = scalars,
            .count = std::min(block8_elements, count - begin),
            .parameters = parameters + begin,
            .gradient = gradient + begin,
            .m_codes = moments.exp_avg_codes + begin,
            .v_codes = moments.exp_avg_sq_codes + begin,
            .m_scale = moments.exp_avg_scales[begin / block8_elements],
            .v_scale = moments.exp_avg_sq_scales[begin / block8_elements]};
}

// body(tag, i) for every vector of 0 … count, then for what is left one by one.
template <typename Body>
HWY_INLINE void for_lanes(std::size_t count, Body body) {
    const std::size_t lanes = hn::Lanes(Full());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) body(Full(), i);
    for (; i < count; ++i) body(One(), i);
}

HWY_NOINLINE double lamb8_squares(const AdamScalars& scalars,
                                  std::size_t count,
                                  const float* parameters,
                                  const float* gradient,
                                  const Moments8& moments) {
    Lanes squares;
    alignas(64) float u[block8_elements];
    for (std::size_t begin = 0; begin < count; begin += block8_elements) {
        const Block block = block_of(scalars, begin, count, parameters, gradient, moments);
        for_lanes(block.count, [&](auto d, std::size_t i) HWY_ATTR {
            auto m = hn::Zero(d);
            auto v = hn::Zero(d);
            hn::StoreU(block.direction_at(d, i, m, v), d, u + i);
        });
        squares.add(u, block.count);
    }
    return squares.joined();
}

HWY_INLINE float largest_magnitude(const float* HWY_RESTRICT x, std::size_t count) {
    float largest = 0;
    auto lanes = hn::Zero(Full());
    for_lanes(count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
        if constexpr (std::is_same_v<decltype(d), Full>) {
            lanes = hn::Max(lanes, magnitude);
        } else {
            largest = std::max(largest, hn::GetLane(magnitude));
        }
    });
    return std::max(largest, hn::GetLane(hn::MaxOfLanes(Full(), lanes)));
}

// Codes of x[0 … count], and their scale.
HWY_INLINE float encode_block(const CodeBook& book,
                              const float* HWY_RESTRICT x,
                              std::size_t count,
                              std::uint8_t* HWY_RESTRICT codes) {
    const float scale = largest_magnitude(x, count);
    const float divisor = scale > 0 ? scale : 1.0f;
    for_lanes(count, [&](auto d, std::size_t i) HWY_ATTR {
        encode(d, book, hn::Div(hn::LoadU(d, x + i), hn::Set(d, divisor)), codes + i);
    });
    return scale;
}

HWY_NOINLINE void lamb8_apply(const AdamScalars& scalars,
                              std::size_t count,
                              float* parameters,
                              const float* gradient,
                              const Moments8& moments) {
    alignas(64) float exp_avg[block8_elements];
    alignas(64) float exp_avg_sq[block8_elements];
    for (std::size_t begin = 0; begin < count; begin += block8_elements) {
        const Block block = block_of(scalars, begin, count, parameters, gradient, moments);
        float* const to = parameters + begin;
        for_lanes(block.count, [&](auto d, std::size_t i) HWY_ATTR {
            auto m = hn::Zero(d);
            auto v = hn::Zero(d);
            const auto u = block.direction_at(d, i, m, v);
            hn::StoreU(add_scaled(d, hn::LoadU(d, to + i), u, scalars.minus_rate), d, to + i);
            hn::StoreU(m, d, exp_avg + i);
            hn::StoreU(v, d, exp_avg_sq + i);
        });
        moments.exp_avg_scales[begin / block8_elements] =
            encode_block(CodeBook::with_sign(), exp_avg, block.count, block.m_codes);
        moments.exp_avg_sq_scales[begin / block8_elements] =
            encode_block(CodeBook::from_zero(), exp_avg_sq, block.count, block.v_codes);
    }
}

}  // namespace
}  // namespace dedloc::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::optim {
namespace {

HWY_EXPORT(lamb8_squares);
HWY_EXPORT(lamb8_apply);

}  // namespace

double chunk_lamb8_squares(const AdamScalars& scalars,
                           std::size_t count,
                           const float* parameters,
                           const float* gradient,
                           const Moments8& moments) {
    return HWY_DYNAMIC_DISPATCH(lamb8_squares)(scalars, count, parameters, gradient, moments);
}

void chunk_lamb8_apply(const AdamScalars& scalars,
                       std::size_t count,
                       float* parameters,
                       const float* gradient,
                       const Moments8& moments) {
    HWY_DYNAMIC_DISPATCH(lamb8_apply)(scalars, count, parameters, gradient, moments);
}

}  // namespace dedloc::optim
#endif  // HWY_ONCE
