// Compiled once for each CPU target, chosen at run time, as optimizer_kernels.cpp is.

#include "dedloc/optim/muon_kernels.h"

#include <algorithm>

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/optim/muon_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dedloc::optim::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

template <typename D>
HWY_INLINE void direction_at(D d,
                             const MuonScalars& s,
                             const float* HWY_RESTRICT gradient,
                             float* HWY_RESTRICT momentum,
                             float* HWY_RESTRICT direction) {
    const auto g = hn::Mul(hn::LoadU(d, gradient), hn::Set(d, s.gradient_scale));
    const auto share = hn::Mul(g, hn::Set(d, s.one_less_momentum));
    const auto m = hn::Add(hn::Mul(hn::LoadU(d, momentum), hn::Set(d, s.momentum)), share);
    hn::StoreU(m, d, momentum);
    const auto ahead = hn::Add(hn::Mul(m, hn::Set(d, s.momentum)), share);
    hn::StoreU(s.nesterov ? ahead : m, d, direction);
}

HWY_NOINLINE void muon_direction(const MuonScalars& scalars,
                                 std::size_t count,
                                 const float* gradient,
                                 float* momentum,
                                 float* direction) {
    const MuonScalars s = scalars;
    const std::size_t lanes = hn::Lanes(Wide());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        direction_at(Wide(), s, gradient + i, momentum + i, direction + i);
    for (; i < count; ++i) direction_at(Single(), s, gradient + i, momentum + i, direction + i);
}

template <typename D>
HWY_INLINE void scale_and_add_at(
    D d, float keep, float factor, const float* HWY_RESTRICT from, float* HWY_RESTRICT to) {
    const auto kept = hn::Mul(hn::LoadU(d, to), hn::Set(d, keep));
    hn::StoreU(hn::Add(kept, hn::Mul(hn::LoadU(d, from), hn::Set(d, factor))), d, to);
}

HWY_NOINLINE void scale_and_add(
    std::size_t count, float keep, float factor, const float* from, float* to) {
    const std::size_t lanes = hn::Lanes(Wide());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) scale_and_add_at(Wide(), keep, factor, from + i, to + i);
    for (; i < count; ++i) scale_and_add_at(Single(), keep, factor, from + i, to + i);
}

// Four rows of `out`, two vectors of columns each, go on from what they hold.
HWY_INLINE void add_tile(const float* const* HWY_RESTRICT a,
                         const float* HWY_RESTRICT b,
                         std::size_t inner,
                         float* const* HWY_RESTRICT out) {
    const Wide d;
    const std::size_t lanes = hn::Lanes(d);
    auto r0 = hn::LoadU(d, out[0]), s0 = hn::LoadU(d, out[0] + lanes);
    auto r1 = hn::LoadU(d, out[1]), s1 = hn::LoadU(d, out[1] + lanes);
    auto r2 = hn::LoadU(d, out[2]), s2 = hn::LoadU(d, out[2] + lanes);
    auto r3 = hn::LoadU(d, out[3]), s3 = hn::LoadU(d, out[3] + lanes);
    for (std::size_t k = 0; k < inner; ++k, b += 2 * lanes) {
        const auto left = hn::LoadU(d, b);
        const auto right = hn::LoadU(d, b + lanes);
        const auto a0 = hn::Set(d, a[0][k]);
        r0 = hn::Add(r0, hn::Mul(a0, left));
        s0 = hn::Add(s0, hn::Mul(a0, right));
        const auto a1 = hn::Set(d, a[1][k]);
        r1 = hn::Add(r1, hn::Mul(a1, left));
        s1 = hn::Add(s1, hn::Mul(a1, right));
        const auto a2 = hn::Set(d, a[2][k]);
        r2 = hn::Add(r2, hn::Mul(a2, left));
        s2 = hn::Add(s2, hn::Mul(a2, right));
        const auto a3 = hn::Set(d, a[3][k]);
        r3 = hn::Add(r3, hn::Mul(a3, left));
        s3 = hn::Add(s3, hn::Mul(a3, right));
    }
    hn::StoreU(r0, d, out[0]);
    hn::StoreU(s0, d, out[0] + lanes);
    hn::StoreU(r1, d, out[1]);
    hn::StoreU(s1, d, out[1] + lanes);
    hn::StoreU(r2, d, out[2]);
    hn::StoreU(s2, d, out[2] + lanes);
    hn::StoreU(r3, d, out[3]);
    hn::StoreU(s3, d, out[3] + lanes);
}

constexpr std::size_t tile_rows = 4;
constexpr std::size_t inner_block = 256;  // so much of two vectors' columns stays in a cache
constexpr std::size_t floats_of_tile = 2 * HWY_MAX_BYTES / sizeof(float);  // at most, in a row

HWY_NOINLINE void product(const float* a,
                          const float* b,
                          std::size_t rows,
                          std::size_t inner,
                          std::size_t columns,
                          float* out) {
    const std::size_t width = 2 * hn::Lanes(Wide());
    const std::size_t in_tiles = columns / width * width;
    std::fill(out, out + rows * columns, 0.0f);
    HWY_ALIGN float panel[inner_block * floats_of_tile];
    HWY_ALIGN float unused[floats_of_tile] = {};  // of rows beyond the last
    for (std::size_t begin = 0; begin < inner; begin += inner_block) {
        const std::size_t count = std::min(inner_block, inner - begin);
        for (std::size_t column = 0; column < in_tiles; column += width) {
            for (std::size_t k = 0; k < count; ++k)
                std::copy_n(b + (begin + k) * columns + column, width, panel + k * width);
            for (std::size_t row = 0; row < rows; row += tile_rows) {
                const float* from[tile_rows];
                float* to[tile_rows];
                for (std::size_t i = 0; i < tile_rows; ++i) {
                    const bool is_there = row + i < rows;
                    from[i] = a + (is_there ? row + i : row) * inner + begin;
                    to[i] = is_there ? out + (row + i) * columns + column : unused;
                }
                add_tile(from, panel, count, to);
            }
        }
    }
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t column = in_tiles; column < columns; ++column) {
            float sum = 0;
            for (std::size_t k = 0; k < inner; ++k) {
                const float one = a[row * inner + k] * b[k * columns + column];
                sum = sum + one;
            }
            out[row * columns + column] = sum;
        }
}

}  // namespace
}  // namespace dedloc::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::optim {
namespace {

HWY_EXPORT(muon_direction);
HWY_EXPORT(scale_and_add);
HWY_EXPORT(product);

}  // namespace

void chunk_muon_direction(const MuonScalars& scalars,
                          std::size_t count,
                          const float* gradient,
                          float* momentum,
                          float* direction) {
    HWY_DYNAMIC_DISPATCH(muon_direction)(scalars, count, gradient, momentum, direction);
}

void chunk_scale_and_add(
    std::size_t count, float keep, float factor, const float* from, float* to) {
    HWY_DYNAMIC_DISPATCH(scale_and_add)(count, keep, factor, from, to);
}

void rows_of_product(const float* a,
                     const float* b,
                     std::size_t rows,
                     std::size_t inner,
                     std::size_t columns,
                     float* out) {
    HWY_DYNAMIC_DISPATCH(product)(a, b, rows, inner, columns, out);
}

}  // namespace dedloc::optim
#endif  // HWY_ONCE
