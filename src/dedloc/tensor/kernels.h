// Loops over long vectors: conversions, weighted sums, checks. The same bits on every CPU.
//
// Each function picks the widest SIMD the machine has at its first call (Highway) and gives what
// the one-number-at-a-time function of namespace `reference` gives; kernels_test.cpp compares the
// two on every target this machine can run. Products and sums are rounded one by one: no fused
// multiply-add anywhere. Every function sets the floating-point environment itself.
//
// Bytes are little-endian, need no alignment, and may not overlap the other span.
//
// Cost:   memory speed (kernels_bench.cpp). Nothing is allocated.
// Thread: any. Sizes that do not fit are our bug (DEDLOC_CHECK).

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/base/bytes.h"

namespace dedloc::tensor {

// 2 bytes an element; rounding and NaN as in half.h.
void halves_from_floats(std::span<const float> floats, std::span<std::uint8_t> halves);
void floats_from_halves(ByteView halves, std::span<float> floats);
void bfloat16_from_floats(std::span<const float> floats, std::span<std::uint8_t> bfloat16);
void floats_from_bfloat16(ByteView bfloat16, std::span<float> floats);

// factor * x, the product rounded first. What is finite stays finite: beyond the format's largest
// number it becomes that number. Infinities and NaN stay visible.
void halves_from_floats_saturating(std::span<const float> floats,
                                   std::span<std::uint8_t> halves,
                                   float factor = 1.0f);
void bfloat16_from_floats_saturating(std::span<const float> floats,
                                     std::span<std::uint8_t> bfloat16,
                                     float factor = 1.0f);
void scaled_copy(std::span<const float> floats,
                 std::span<std::uint8_t> little_endian,
                 float factor);

// accumulator[i] += weight * x[i]: the product is rounded, then the sum.
void add_weighted(std::span<float> accumulator, std::span<const float> x, float weight);
// The same with x decoded on the way; the bits are those of decoding first.
void add_weighted_halves(std::span<float> accumulator, ByteView halves, float weight);
void add_weighted_bfloat16(std::span<float> accumulator, ByteView bfloat16, float weight);
void add_weighted_floats(std::span<float> accumulator, ByteView little_endian, float weight);

// x[i] *= factor, x[i] /= divisor.
void scale(std::span<float> x, float factor);
void divide(std::span<float> x, float divisor);

// No infinity and no NaN among x.
bool all_finite(std::span<const float> x);

// The largest |x|; infinity if one of them is infinite or NaN; 0 of nothing. A vector can thus be
// judged from its bytes, before a number of it is added to anything.
float largest_magnitude_of_floats(ByteView little_endian);
float largest_magnitude_of_halves(ByteView halves);
float largest_magnitude_of_bfloat16(ByteView bfloat16);

// Sum of x[i]^2 in double precision. Element i is added to lane i mod 16; at the end lanes are
// joined in halves: lane j += lane j + 8, then + 4, + 2, + 1. The square of a float is exact in
// a double, so each element costs one rounding and the order fixes the bits.
double sum_of_squares(std::span<const float> x);
// Sum of x[i] y[i], in the same order and precision.
double dot(std::span<const float> x, std::span<const float> y);

namespace reference {
void halves_from_floats(std::span<const float> floats, std::span<std::uint8_t> halves);
void halves_from_floats_saturating(std::span<const float> floats,
                                   std::span<std::uint8_t> halves,
                                   float factor = 1.0f);
void bfloat16_from_floats_saturating(std::span<const float> floats,
                                     std::span<std::uint8_t> bfloat16,
                                     float factor = 1.0f);
void floats_from_halves(ByteView halves, std::span<float> floats);
void bfloat16_from_floats(std::span<const float> floats, std::span<std::uint8_t> bfloat16);
void floats_from_bfloat16(ByteView bfloat16, std::span<float> floats);
void add_weighted(std::span<float> accumulator, std::span<const float> x, float weight);
void scale(std::span<float> x, float factor);
void divide(std::span<float> x, float divisor);
bool all_finite(std::span<const float> x);
float largest_magnitude_of_floats(ByteView little_endian);
float largest_magnitude_of_halves(ByteView halves);
float largest_magnitude_of_bfloat16(ByteView bfloat16);
double sum_of_squares(std::span<const float> x);
double dot(std::span<const float> x, std::span<const float> y);
}  // namespace reference

}  // namespace dedloc::tensor
