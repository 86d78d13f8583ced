// SIMD twins of blocks8_reference.cpp, compiled once for each CPU target and chosen at run time.

#include "dedloc/tensor/blocks8.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/tensor/half.h"

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/tensor/blocks8.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

static_assert(std::endian::native == std::endian::little, "wire order is memory order here");

HWY_BEFORE_NAMESPACE();
namespace dedloc::tensor::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<float>;
using DU32 = hn::RebindToUnsigned<D32>;
using DI32 = hn::RebindToSigned<D32>;
using DU8 = hn::Rebind<std::uint8_t, D32>;
using VF = hn::Vec<D32>;

// Two vectors of any target fit; a shorter block is padded with zeros up to a multiple.
constexpr std::size_t stride = 128;
static_assert(2 * hn::MaxLanes(D32()) <= stride && block8_elements % stride == 0);

struct Range {
    float lo = 0;
    float hi = 0;
    std::uint32_t magnitude_bits = 0;
};

template <typename D, typename V>
HWY_INLINE auto smallest_lane(D d, V v) {
    return hn::GetLane(hn::MinOfLanes(d, v));
}
template <typename D, typename V>
HWY_INLINE auto largest_lane(D d, V v) {
    return hn::GetLane(hn::MaxOfLanes(d, v));
}

// Two chains each, so that the latency of one min or max does not set the pace. With a NaN among
// the values lo and hi mean nothing, but then magnitude_bits says so.
HWY_INLINE Range range_of(const float* x, std::size_t count, float factor) {
    const D32 d;
    const DI32 di;
    const std::size_t lanes = hn::Lanes(d);
    const VF factors = hn::Set(d, factor);
    const auto mask = hn::Set(di, 0x7fffffff);
    VF lo0 = hn::Zero(d);
    VF lo1 = hn::Zero(d);
    VF hi0 = hn::Zero(d);
    VF hi1 = hn::Zero(d);
    auto top0 = hn::Zero(di);
    auto top1 = hn::Zero(di);
    for (std::size_t i = 0; i < count; i += 2 * lanes) {
        const VF a = hn::Mul(hn::LoadU(d, x + i), factors);
        const VF b = hn::Mul(hn::LoadU(d, x + i + lanes), factors);
        lo0 = hn::Min(lo0, a);
        lo1 = hn::Min(lo1, b);
        hi0 = hn::Max(hi0, a);
        hi1 = hn::Max(hi1, b);
        top0 = hn::Max(top0, hn::And(hn::BitCast(di, a), mask));
        top1 = hn::Max(top1, hn::And(hn::BitCast(di, b), mask));
    }
    Range range;
    range.lo = smallest_lane(d, hn::Min(lo0, lo1));
    range.hi = largest_lane(d, hn::Max(hi0, hi1));
    range.magnitude_bits = static_cast<std::uint32_t>(largest_lane(di, hn::Max(top0, top1)));
    return range;
}

// Adding 1.5 × 2^23 rounds to a whole number, ties to even; its lowest bits are then the number.
constexpr float rounder = 12582912.0f;

HWY_INLINE void write_codes(const float* x,
                            std::size_t count,
                            float factor,
                            float inverse,
                            float zero,
                            std::uint8_t* codes) {
    const D32 d;
    const std::size_t lanes = hn::Lanes(d);
    const VF factors = hn::Set(d, factor);
    const VF inverses = hn::Set(d, inverse);
    const VF shift = hn::Set(d, rounder + zero);  // exact
    const VF top = hn::Set(d, rounder + 255.0f);
    for (std::size_t i = 0; i < count; i += lanes) {
        const VF scaled = hn::Mul(hn::Mul(hn::LoadU(d, x + i), factors), inverses);
        const VF rounded = hn::Min(hn::Add(scaled, shift), top);
        hn::StoreU(hn::TruncateTo(DU8(), hn::BitCast(DU32(), rounded)), DU8(), codes + i);
    }
}

// `count` is a multiple of `stride`, and so many floats and codes there are.
HWY_INLINE std::uint32_t encode_block(const float* x,
                                      std::size_t count,
                                      float factor,
                                      std::uint8_t* codes) {
    Range range = range_of(x, count, factor);
    if (range.magnitude_bits >= 0x7f800000u) {
        std::memset(codes, 0, count);
        return block8_not_finite;
    }
    alignas(64) float clamped[block8_elements];
    if (range.magnitude_bits > std::bit_cast<std::uint32_t>(block8_magnitude_largest)) {
        for (std::size_t i = 0; i < count; ++i) {
            const float value = x[i] * factor;
            clamped[i] = std::clamp(value, -block8_magnitude_largest, block8_magnitude_largest);
        }
        x = clamped;
        factor = 1.0f;
        range = range_of(x, count, factor);
    }
    const float width = range.hi - range.lo;
    if (width < block8_range_smallest) {
        std::memset(codes, 0, count);
        return 0;
    }
    const std::uint32_t scale_bits = (std::bit_cast<std::uint32_t>(width / 255.0f) + 0xff) & ~0xffu;
    const float inverse = 1.0f / std::bit_cast<float>(scale_bits);
    // lo × inverse + zero lies within ±0.5, so no code falls below 0; some may exceed 255 by less
    // than 1 and are cut.
    const float zero_shifted = rounder - range.lo * inverse;
    const std::uint32_t zero = std::bit_cast<std::uint32_t>(zero_shifted) & 0xffu;
    write_codes(x, count, factor, inverse, zero_shifted - rounder, codes);
    return scale_bits | zero;
}

HWY_NOINLINE void encode(const float* x, std::size_t count, float factor, std::uint8_t* out) {
    for (; count >= block8_elements; count -= block8_elements) {
        const std::uint32_t word = encode_block(x, block8_elements, factor, out + 4);
        std::memcpy(out, &word, sizeof word);
        x += block8_elements;
        out += block8_bytes;
    }
    if (count == 0) return;
    alignas(64) float padded[block8_elements];
    alignas(64) std::uint8_t codes[block8_elements];
    const std::size_t whole = (count + stride - 1) / stride * stride;
    std::memcpy(padded, x, 4 * count);
    std::fill(padded + count, padded + whole, 0.0f);
    const std::uint32_t word = encode_block(padded, whole, factor, codes);
    std::memcpy(out, &word, sizeof word);
    std::memcpy(out + 4, codes, count);
}

struct Header {
    float scale;
    std::int32_t zero;
};

HWY_INLINE Header read_header(const std::uint8_t* block) {
    std::uint32_t word = 0;
    std::memcpy(&word, block, sizeof word);
    const std::uint32_t scale_bits = word & ~0xffu;
    return {
        std::bit_cast<float>(scale_bits > block8_scale_bits_largest ? float_nan_bits : scale_bits),
        static_cast<std::int32_t>(word & 0xff)};
}

HWY_INLINE VF decode_codes(const std::uint8_t* codes, VF scale, hn::Vec<DI32> zero) {
    const auto wide = hn::PromoteTo(DI32(), hn::LoadU(DU8(), codes));
    return hn::Mul(scale, hn::ConvertTo(D32(), hn::Sub(wide, zero)));
}

HWY_INLINE void decode_block(Header header,
                             const std::uint8_t* codes,
                             std::size_t count,
                             float* out) {
    const D32 d;
    const std::size_t lanes = hn::Lanes(d);
    const VF scale = hn::Set(d, header.scale);
    const auto zero = hn::Set(DI32(), header.zero);
    for (std::size_t i = 0; i < count; i += lanes)
        hn::StoreU(decode_codes(codes + i, scale, zero), d, out + i);
}

HWY_INLINE void add_block(
    Header header, const std::uint8_t* codes, std::size_t count, float weight, float* sum) {
    const D32 d;
    const std::size_t lanes = hn::Lanes(d);
    const VF scale = hn::Set(d, header.scale);
    const auto zero = hn::Set(DI32(), header.zero);
    const VF weights = hn::Set(d, weight);
    for (std::size_t i = 0; i < count; i += lanes) {
        const VF product = hn::Mul(weights, decode_codes(codes + i, scale, zero));
        hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
    }
}

HWY_NOINLINE void decode(const std::uint8_t* in, std::size_t count, float* out) {
    for (; count >= block8_elements; count -= block8_elements) {
        decode_block(read_header(in), in + 4, block8_elements, out);
        in += block8_bytes;
        out += block8_elements;
    }
    if (count == 0) return;
    alignas(64) std::uint8_t codes[block8_elements] = {};
    alignas(64) float decoded[block8_elements];
    std::memcpy(codes, in + 4, count);
    decode_block(read_header(in), codes, (count + stride - 1) / stride * stride, decoded);
    std::memcpy(out, decoded, 4 * count);
}

HWY_NOINLINE void add_weighted(const std::uint8_t* in,
                               std::size_t count,
                               float weight,
                               float* sum) {
    for (; count >= block8_elements; count -= block8_elements) {
        add_block(read_header(in), in + 4, block8_elements, weight, sum);
        in += block8_bytes;
        sum += block8_elements;
    }
    if (count == 0) return;
    alignas(64) std::uint8_t codes[block8_elements] = {};
    alignas(64) float tail[block8_elements] = {};
    std::memcpy(codes, in + 4, count);
    std::memcpy(tail, sum, 4 * count);
    add_block(read_header(in), codes, (count + stride - 1) / stride * stride, weight, tail);
    std::memcpy(sum, tail, 4 * count);
}

}  // namespace
}  // namespace dedloc::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::tensor {
namespace {

HWY_EXPORT(encode);
HWY_EXPORT(decode);
HWY_EXPORT(add_weighted);

void check_size(std::size_t floats, std::size_t bytes) {
    DEDLOC_CHECK(bytes == blocks8_size(floats), "{} floats, {} bytes", floats, bytes);
}

}  // namespace

void blocks8_from_floats(std::span<const float> floats,
                         std::span<std::uint8_t> blocks,
                         float factor) {
    check_size(floats.size(), blocks.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(encode)(floats.data(), floats.size(), factor, blocks.data());
}

void floats_from_blocks8(ByteView blocks, std::span<float> floats) {
    check_size(floats.size(), blocks.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(decode)(blocks.data(), floats.size(), floats.data());
}

void add_weighted_blocks8(std::span<float> accumulator, ByteView blocks, float weight) {
    check_size(accumulator.size(), blocks.size());
    const FloatEnvironmentGuard guard;
    HWY_DYNAMIC_DISPATCH(add_weighted)
    (blocks.data(), accumulator.size(), weight, accumulator.data());
}

float largest_magnitude_of_blocks8(ByteView blocks) {
    float largest = 0;
    for (std::size_t at = 0; at + 4 < blocks.size(); at += block8_bytes) {
        std::uint32_t word = 0;
        std::memcpy(&word, blocks.data() + at, sizeof word);
        const std::uint32_t scale_bits = word & ~0xffu;
        if (scale_bits > block8_scale_bits_largest) return std::numeric_limits<float>::infinity();
        const std::uint32_t zero = word & 0xff;
        const auto code = static_cast<float>(std::max(zero, 255 - zero));
        largest = std::max(largest, std::bit_cast<float>(scale_bits) * code);
    }
    return largest;
}

}  // namespace dedloc::tensor
#endif  // HWY_ONCE
