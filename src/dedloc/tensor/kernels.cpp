// SIMD twins of kernels_reference.cpp, compiled once for each CPU target and chosen at run time.

#include "dedloc/tensor/kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/tensor/half.h"

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/tensor/kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

static_assert(std::endian::native == std::endian::little, "wire order is memory order here");

HWY_BEFORE_NAMESPACE();
namespace dedloc::tensor::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Conversion instructions round to nearest whatever the control register says, on these targets.
#undef DEDLOC_HAVE_F16C
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define DEDLOC_HAVE_F16C 1
#else
#define DEDLOC_HAVE_F16C 0
#endif

using D32 = hn::ScalableTag<float>;
using DU32 = hn::RebindToUnsigned<D32>;
using DI32 = hn::RebindToSigned<D32>;
using DU16 = hn::Rebind<std::uint16_t, D32>;
using VF = hn::Vec<D32>;
using VU = hn::Vec<DU32>;
using V16 = hn::Vec<DU16>;

HWY_INLINE V16 load_words(const std::uint8_t* bytes) {
    return hn::LoadU(DU16(), reinterpret_cast<const std::uint16_t*>(bytes));
}

HWY_INLINE void store_words(V16 words, std::uint8_t* bytes) {
    hn::StoreU(words, DU16(), reinterpret_cast<std::uint16_t*>(bytes));
}

HWY_INLINE V16 narrow(VU words) { return hn::DemoteTo(DU16(), hn::BitCast(DI32(), words)); }
HWY_INLINE VU widen(V16 words) { return hn::PromoteTo(DU32(), words); }

// Each format: Words <-> floats for one vector, and one element for the tail.
struct Half {
    static HWY_INLINE V16 encode(VF value) {
        const DU32 du;
        const VU bits = hn::BitCast(du, value);
        const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
        const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7f800000u));
#if DEDLOC_HAVE_F16C
        const hn::Rebind<hwy::float16_t, D32> d16;
        const VF quiet = hn::IfThenElse(
            hn::RebindMask(D32(), is_nan), hn::BitCast(D32(), hn::Set(du, float_nan_bits)), value);
        return hn::BitCast(DU16(), hn::DemoteTo(d16, quiet));
#else
        const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
        // Normal result: move the exponent's bias, add half a unit less one, plus the last kept
        // bit (ties to even), cut.
        const VU odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
        const VU rebased = hn::Add(magnitude, hn::Set(du, 0xc8000fffu));
        const VU normal = hn::ShiftRight<13>(hn::Add(rebased, odd));
        // Denormal result: adding 0.5 leaves a multiple of 2^-24 in the low bits, rounded.
        const VF shifted = hn::Add(hn::BitCast(D32(), magnitude), hn::Set(D32(), 0.5f));
        const VU denormal = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000u));
        const VU infinity = hn::Set(du, 0x7c00u);
        VU half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), denormal, normal);
        half = hn::IfThenElse(hn::Lt(hn::Set(du, 0x477fefffu), magnitude), infinity, half);
        half = hn::Or(half, sign);
        return narrow(hn::IfThenElse(is_nan, hn::Set(du, std::uint32_t{half_nan}), half));
#endif
    }

    static HWY_INLINE VF decode(V16 half) {
        const DU32 du;
#if DEDLOC_HAVE_F16C
        const hn::Rebind<hwy::float16_t, D32> d16;
        const VF value = hn::PromoteTo(D32(), hn::BitCast(d16, half));
        const VU magnitude = hn::And(hn::BitCast(du, value), hn::Set(du, 0x7fffffffu));
        const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7f800000u));
        return hn::BitCast(
            D32(), hn::IfThenElse(is_nan, hn::Set(du, float_nan_bits), hn::BitCast(du, value)));
#else
        const VU wide = widen(half);
        const VU magnitude = hn::And(wide, hn::Set(du, 0x7fffu));
        const VU sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000u)));
        const VU moved = hn::ShiftLeft<13>(magnitude);
        const VU normal = hn::Add(moved, hn::Set(du, 112u << 23));
        const VF count = hn::ConvertTo(D32(), hn::BitCast(DI32(), magnitude));
        const VU denormal = hn::BitCast(du, hn::Mul(count, hn::Set(D32(), 0x1p-24f)));
        const VU infinity = hn::Set(du, 0x7f800000u);
        VU bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x400u)), denormal, normal);
        bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7bffu)), infinity, bits);
        bits = hn::Or(bits, sign);
        const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7c00u));
        return hn::BitCast(D32(), hn::IfThenElse(is_nan, hn::Set(du, float_nan_bits), bits));
#endif
    }

    static std::uint16_t encode_one(float value) { return half_from_float(value); }
    static float decode_one(std::uint16_t word) { return float_from_half(word); }
};

struct SaturatingHalf : Half {
    static HWY_INLINE V16 encode(VF value) {
        const DU32 du;
        const VU bits = hn::BitCast(du, value);
        const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
        const VU largest = hn::Set(du, 0x477fe000u);  // 65504
        const auto too_large =
            hn::And(hn::Gt(magnitude, largest), hn::Lt(magnitude, hn::Set(du, 0x7f800000u)));
        const VU sign = hn::And(bits, hn::Set(du, 0x80000000u));
        const VU clamped = hn::IfThenElse(too_large, hn::Or(largest, sign), bits);
        return Half::encode(hn::BitCast(D32(), clamped));
    }
    static std::uint16_t encode_one(float value) { return half_from_float_saturating(value); }
};

struct Bfloat16 {
    static HWY_INLINE V16 encode(VF value) {
        const DU32 du;
        const VU bits = hn::BitCast(du, value);
        const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
        const VU rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
        const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
        const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7f800000u));
        return narrow(hn::IfThenElse(
            is_nan, hn::Set(du, std::uint32_t{bfloat16_nan}), hn::ShiftRight<16>(rounded)));
    }

    static HWY_INLINE VF decode(V16 word) {
        const DU32 du;
        const VU bits = hn::ShiftLeft<16>(widen(word));
        const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
        const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7f800000u));
        return hn::BitCast(D32(), hn::IfThenElse(is_nan, hn::Set(du, float_nan_bits), bits));
    }

    static std::uint16_t encode_one(float value) { return bfloat16_from_float(value); }
    static float decode_one(std::uint16_t word) { return float_from_bfloat16(word); }
};

struct SaturatingBfloat16 : Bfloat16 {
    static HWY_INLINE V16 encode(VF value) {
        const DU32 du;
        const VU bits = hn::BitCast(du, value);
        const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
        const VU largest = hn::Set(du, 0x7f7f0000u);
        const auto too_large =
            hn::And(hn::Gt(magnitude, largest), hn::Lt(magnitude, hn::Set(du, 0x7f800000u)));
        const VU sign = hn::And(bits, hn::Set(du, 0x80000000u));
        const VU clamped = hn::IfThenElse(too_large, hn::Or(largest, sign), bits);
        return Bfloat16::encode(hn::BitCast(D32(), clamped));
    }
    static std::uint16_t encode_one(float value) { return bfloat16_from_float_saturating(value); }
};

// Multiplying by one changes no number; NaN becomes the canonical one afterwards anyway.
template <typename Format>
HWY_INLINE void encode_loop(const float* floats,
                            std::size_t count,
                            std::uint8_t* out,
                            float factor = 1.0f) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF factors = hn::Set(D32(), factor);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const VF values = hn::Mul(hn::LoadU(D32(), floats + i), factors);
        store_words(Format::encode(values), out + 2 * i);
    }
    for (; i < count; ++i) {
        const std::uint16_t word = Format::encode_one(floats[i] * factor);
        std::memcpy(out + 2 * i, &word, sizeof word);
    }
}

template <typename Format>
HWY_INLINE void decode_loop(const std::uint8_t* in, std::size_t count, float* floats) {
    const std::size_t lanes = hn::Lanes(D32());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        hn::StoreU(Format::decode(load_words(in + 2 * i)), D32(), floats + i);
    }
    for (; i < count; ++i) {
        std::uint16_t word = 0;
        std::memcpy(&word, in + 2 * i, sizeof word);
        floats[i] = Format::decode_one(word);
    }
}

template <typename Format>
HWY_INLINE void add_words_loop(float* accumulator,
                               const std::uint8_t* in,
                               std::size_t count,
                               float weight) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF weights = hn::Set(D32(), weight);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const VF product = hn::Mul(weights, Format::decode(load_words(in + 2 * i)));
        hn::StoreU(hn::Add(hn::LoadU(D32(), accumulator + i), product), D32(), accumulator + i);
    }
    for (; i < count; ++i) {
        std::uint16_t word = 0;
        std::memcpy(&word, in + 2 * i, sizeof word);
        const float product = weight * Format::decode_one(word);
        accumulator[i] = accumulator[i] + product;
    }
}

HWY_NOINLINE void halves_from_floats(const float* in, std::size_t count, std::uint8_t* out) {
    encode_loop<Half>(in, count, out);
}
HWY_NOINLINE void saturating_halves(const float* in,
                                    std::size_t count,
                                    std::uint8_t* out,
                                    float factor) {
    encode_loop<SaturatingHalf>(in, count, out, factor);
}
HWY_NOINLINE void saturating_bfloat16(const float* in,
                                      std::size_t count,
                                      std::uint8_t* out,
                                      float factor) {
    encode_loop<SaturatingBfloat16>(in, count, out, factor);
}
HWY_NOINLINE void scaled_copy(const float* in, std::size_t count, std::uint8_t* out, float factor) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF factors = hn::Set(D32(), factor);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const VF values = hn::Mul(hn::LoadU(D32(), in + i), factors);
        hn::StoreU(values, D32(), reinterpret_cast<float*>(out + 4 * i));
    }
    for (; i < count; ++i) {
        const float value = in[i] * factor;
        std::memcpy(out + 4 * i, &value, sizeof value);
    }
}
HWY_NOINLINE void floats_from_halves(const std::uint8_t* in, std::size_t count, float* out) {
    decode_loop<Half>(in, count, out);
}
HWY_NOINLINE void bfloat16_from_floats(const float* in, std::size_t count, std::uint8_t* out) {
    encode_loop<Bfloat16>(in, count, out);
}
HWY_NOINLINE void floats_from_bfloat16(const std::uint8_t* in, std::size_t count, float* out) {
    decode_loop<Bfloat16>(in, count, out);
}
HWY_NOINLINE void add_weighted_halves(float* accumulator,
                                      const std::uint8_t* in,
                                      std::size_t count,
                                      float weight) {
    add_words_loop<Half>(accumulator, in, count, weight);
}
HWY_NOINLINE void add_weighted_bfloat16(float* accumulator,
                                        const std::uint8_t* in,
                                        std::size_t count,
                                        float weight) {
    add_words_loop<Bfloat16>(accumulator, in, count, weight);
}

// x may have any alignment: it is a vector of floats, or bytes from the network.
HWY_NOINLINE void add_weighted_floats(float* accumulator,
                                      const std::uint8_t* x,
                                      std::size_t count,
                                      float weight) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF weights = hn::Set(D32(), weight);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const VF values = hn::LoadU(D32(), reinterpret_cast<const float*>(x + 4 * i));
        const VF product = hn::Mul(weights, values);
        hn::StoreU(hn::Add(hn::LoadU(D32(), accumulator + i), product), D32(), accumulator + i);
    }
    for (; i < count; ++i) {
        float value = 0;
        std::memcpy(&value, x + 4 * i, sizeof value);
        const float product = weight * value;
        accumulator[i] = accumulator[i] + product;
    }
}

HWY_NOINLINE void scale(float* x, std::size_t count, float factor) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF factors = hn::Set(D32(), factor);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        hn::StoreU(hn::Mul(hn::LoadU(D32(), x + i), factors), D32(), x + i);
    }
    for (; i < count; ++i) x[i] = x[i] * factor;
}

HWY_NOINLINE void divide(float* x, std::size_t count, float divisor) {
    const std::size_t lanes = hn::Lanes(D32());
    const VF divisors = hn::Set(D32(), divisor);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        hn::StoreU(hn::Div(hn::LoadU(D32(), x + i), divisors), D32(), x + i);
    }
    for (; i < count; ++i) x[i] = x[i] / divisor;
}

// The largest word without its sign bit; numbers and their magnitudes are ordered alike.
template <typename Word>
HWY_INLINE Word largest_word(const std::uint8_t* in, std::size_t count) {
    const hn::ScalableTag<Word> d;
    const std::size_t lanes = hn::Lanes(d);
    constexpr Word without_sign = static_cast<Word>(~Word{0}) >> 1;
    const auto mask = hn::Set(d, without_sign);
    auto first = hn::Zero(d);
    auto second = hn::Zero(d);
    std::size_t i = 0;
    const auto at = [&](std::size_t index) HWY_ATTR {
        const auto* words = reinterpret_cast<const Word*>(in + sizeof(Word) * index);
        return hn::And(hn::LoadU(d, words), mask);
    };
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
        first = hn::Max(first, at(i));
        second = hn::Max(second, at(i + lanes));
    }
    for (; i + lanes <= count; i += lanes) first = hn::Max(first, at(i));
    Word words[hn::MaxLanes(hn::ScalableTag<Word>())];
    hn::StoreU(hn::Max(first, second), d, words);
    Word largest = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) largest = std::max(largest, words[lane]);
    for (; i < count; ++i) {
        Word word = 0;
        std::memcpy(&word, in + sizeof(Word) * i, sizeof word);
        largest = std::max(largest, static_cast<Word>(word & without_sign));
    }
    return largest;
}

HWY_NOINLINE std::uint16_t largest_word16(const std::uint8_t* in, std::size_t count) {
    return largest_word<std::uint16_t>(in, count);
}
HWY_NOINLINE std::uint32_t largest_word32(const std::uint8_t* in, std::size_t count) {
    return largest_word<std::uint32_t>(in, count);
}

HWY_NOINLINE bool all_finite(const float* x, std::size_t count) {
    // Looks for an early end every `stretch` elements only, which keeps the loop tight.
    constexpr std::size_t stretch = 4096;
    const DU32 du;
    const std::size_t lanes = hn::Lanes(du);
    const VU exponent = hn::Set(du, 0x7f800000u);
    std::size_t i = 0;
    while (i + lanes <= count) {
        const std::size_t end = count - i < stretch ? count : i + stretch;
        VU bad = hn::Zero(du);
        for (; i + lanes <= end; i += lanes) {
            const VU bits = hn::And(hn::BitCast(du, hn::LoadU(D32(), x + i)), exponent);
            bad = hn::Or(bad, hn::VecFromMask(du, hn::Eq(bits, exponent)));
        }
        if (!hn::AllTrue(du, hn::Eq(bad, hn::Zero(du)))) return false;
    }
    for (; i < count; ++i) {
        if ((std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u) == 0x7f800000u) return false;
    }
    return true;
}

using D64 = hn::CappedTag<double, 8>;

// Adds the products of whole rows of 16 elements to the 16 lanes; two chains of additions run side
// by side. For squares x is converted once.
template <bool squares>
HWY_INLINE void add_rows(const float* x, const float* y, std::size_t rows, double* lanes_sum) {
    const D64 d64;
    const hn::Rebind<float, D64> d32;
    const std::size_t lanes = hn::Lanes(d64);  // a power of two, at most 8
    for (std::size_t lane = 0; lane < 16; lane += 2 * lanes) {
        auto first = hn::LoadU(d64, lanes_sum + lane);
        auto second = hn::LoadU(d64, lanes_sum + lane + lanes);
        const float* row = x + lane;
        const float* other = y + lane;
        for (std::size_t i = 0; i < rows; ++i, row += 16, other += 16) {
            const auto a = hn::PromoteTo(d64, hn::LoadU(d32, row));
            const auto b = hn::PromoteTo(d64, hn::LoadU(d32, row + lanes));
            if constexpr (squares) {
                first = hn::Add(first, hn::Mul(a, a));
                second = hn::Add(second, hn::Mul(b, b));
            } else {
                const auto c = hn::PromoteTo(d64, hn::LoadU(d32, other));
                const auto e = hn::PromoteTo(d64, hn::LoadU(d32, other + lanes));
                first = hn::Add(first, hn::Mul(a, c));
                second = hn::Add(second, hn::Mul(b, e));
            }
        }
        hn::StoreU(first, d64, lanes_sum + lane);
        hn::StoreU(second, d64, lanes_sum + lane + lanes);
    }
}

template <bool squares>
HWY_INLINE double sum_of_products(const float* x, const float* y, std::size_t count) {
    constexpr std::size_t rows_at_once = 128;  // stays in the first-level cache
    double lanes_sum[16] = {};
    std::size_t i = 0;
    while (count - i >= 16) {
        const std::size_t rows = std::min(rows_at_once, (count - i) / 16);
        add_rows<squares>(x + i, y + i, rows, lanes_sum);
        i += rows * 16;
    }
    for (std::size_t lane = 0; i < count; ++i, ++lane) {
        const double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
        lanes_sum[lane] = lanes_sum[lane] + product;
    }
    for (std::size_t width = 8; width >= 1; width /= 2) {
        for (std::size_t j = 0; j < width; ++j) lanes_sum[j] = lanes_sum[j] + lanes_sum[j + width];
    }
    return lanes_sum[0];
}

HWY_NOINLINE double sum_of_squares(const float* x, std::size_t count) {
    return sum_of_products<true>(x, x, count);
}
HWY_NOINLINE double dot(const float* x, const float* y, std::size_t count) {
    return sum_of_products<false>(x, y, count);
}

}  // namespace
}  // namespace dedloc::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::tensor {
namespace {

HWY_EXPORT(halves_from_floats);
HWY_EXPORT(saturating_halves);
HWY_EXPORT(floats_from_halves);
HWY_EXPORT(bfloat16_from_floats);
HWY_EXPORT(floats_from_bfloat16);
HWY_EXPORT(add_weighted_halves);
HWY_EXPORT(add_weighted_bfloat16);
HWY_EXPORT(add_weighted_floats);
HWY_EXPORT(saturating_bfloat16);
HWY_EXPORT(scaled_copy);
HWY_EXPORT(scale);
HWY_EXPORT(divide);
HWY_EXPORT(largest_word16);
HWY_EXPORT(largest_word32);
HWY_EXPORT(all_finite);
HWY_EXPORT(sum_of_squares);
HWY_EXPORT(dot);

void check_words(std::size_t floats, std::size_t bytes) {
    DEDLOC_CHECK(bytes == 2 * floats, "{} floats, {} bytes", floats, bytes);
}

float infinity_unless_finite(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return bits < 0x7f800000u ? value : std::numeric_limits<float>::infinity();
}

}  // namespace

void halves_from_floats(std::span<const float> floats, std::span<std::uint8_t> halves) {
    check_words(floats.size(), halves.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(halves_from_floats)(floats.data(), floats.size(), halves.data());
}

void halves_from_floats_saturating(std::span<const float> floats,
                                   std::span<std::uint8_t> halves,
                                   float factor) {
    check_words(floats.size(), halves.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(saturating_halves)(floats.data(), floats.size(), halves.data(), factor);
}

void bfloat16_from_floats_saturating(std::span<const float> floats,
                                     std::span<std::uint8_t> bfloat16,
                                     float factor) {
    check_words(floats.size(), bfloat16.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(saturating_bfloat16)
    (floats.data(), floats.size(), bfloat16.data(), factor);
}

void scaled_copy(std::span<const float> floats,
                 std::span<std::uint8_t> little_endian,
                 float factor) {
    DEDLOC_CHECK(floats.size() * 4 == little_endian.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(scaled_copy)(floats.data(), floats.size(), little_endian.data(), factor);
}

void floats_from_halves(ByteView halves, std::span<float> floats) {
    check_words(floats.size(), halves.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(floats_from_halves)(halves.data(), floats.size(), floats.data());
}

void bfloat16_from_floats(std::span<const float> floats, std::span<std::uint8_t> bfloat16) {
    check_words(floats.size(), bfloat16.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(bfloat16_from_floats)(floats.data(), floats.size(), bfloat16.data());
}

void floats_from_bfloat16(ByteView bfloat16, std::span<float> floats) {
    check_words(floats.size(), bfloat16.size());
    HWY_DYNAMIC_DISPATCH(floats_from_bfloat16)(bfloat16.data(), floats.size(), floats.data());
}

void add_weighted(std::span<float> accumulator, std::span<const float> x, float weight) {
    DEDLOC_CHECK(accumulator.size() == x.size(), "{} += {}", accumulator.size(), x.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(add_weighted_floats)
    (accumulator.data(), reinterpret_cast<const std::uint8_t*>(x.data()), x.size(), weight);
}

void add_weighted_floats(std::span<float> accumulator, ByteView little_endian, float weight) {
    DEDLOC_CHECK(accumulator.size() * 4 == little_endian.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(add_weighted_floats)
    (accumulator.data(), little_endian.data(), accumulator.size(), weight);
}

void add_weighted_halves(std::span<float> accumulator, ByteView halves, float weight) {
    check_words(accumulator.size(), halves.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(add_weighted_halves)
    (accumulator.data(), halves.data(), accumulator.size(), weight);
}

void add_weighted_bfloat16(std::span<float> accumulator, ByteView bfloat16, float weight) {
    check_words(accumulator.size(), bfloat16.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(add_weighted_bfloat16)
    (accumulator.data(), bfloat16.data(), accumulator.size(), weight);
}

void scale(std::span<float> x, float factor) {
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(scale)(x.data(), x.size(), factor);
}

void divide(std::span<float> x, float divisor) {
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(divide)(x.data(), x.size(), divisor);
}

float largest_magnitude_of_floats(ByteView little_endian) {
    DEDLOC_CHECK(little_endian.size() % 4 == 0);
    const std::uint32_t bits =
        HWY_DYNAMIC_DISPATCH(largest_word32)(little_endian.data(), little_endian.size() / 4);
    return infinity_unless_finite(std::bit_cast<float>(bits));
}

float largest_magnitude_of_halves(ByteView halves) {
    DEDLOC_CHECK(halves.size() % 2 == 0);
    const std::uint16_t word =
        HWY_DYNAMIC_DISPATCH(largest_word16)(halves.data(), halves.size() / 2);
    return infinity_unless_finite(float_from_half(word));
}

float largest_magnitude_of_bfloat16(ByteView bfloat16) {
    DEDLOC_CHECK(bfloat16.size() % 2 == 0);
    const std::uint16_t word =
        HWY_DYNAMIC_DISPATCH(largest_word16)(bfloat16.data(), bfloat16.size() / 2);
    return infinity_unless_finite(float_from_bfloat16(word));
}

bool all_finite(std::span<const float> x) {
    return HWY_DYNAMIC_DISPATCH(all_finite)(x.data(), x.size());
}

double sum_of_squares(std::span<const float> x) {
    const FloatEnvironmentGuard guard;
    return HWY_DYNAMIC_DISPATCH(sum_of_squares)(x.data(), x.size());
}

double dot(std::span<const float> x, std::span<const float> y) {
    DEDLOC_CHECK(x.size() == y.size(), "{} times {}", x.size(), y.size());
    const FloatEnvironmentGuard guard;
    return HWY_DYNAMIC_DISPATCH(dot)(x.data(), y.data(), x.size());
}

}  // namespace dedloc::tensor
#endif  // HWY_ONCE
