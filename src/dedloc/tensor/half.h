// One number at a time between fp32, fp16 and bf16: the readable reference of kernels.h.
//
// Rounding is to nearest, ties to even; denormals are exact; overflow gives infinity. Every NaN
// becomes the canonical one (0x7e00, 0x7fc0, 0x7fc00000), because CPUs differ in which payload
// they keep. Integer arithmetic only, so the floating-point environment does not matter.
//
// Source: IEEE 754-2019 binary16 and binary32; bfloat16 = upper half of binary32.

#pragma once
#include <cstdint>

namespace dedloc::tensor {

inline constexpr std::uint16_t half_nan = 0x7e00;
inline constexpr std::uint16_t bfloat16_nan = 0x7fc0;
inline constexpr std::uint32_t float_nan_bits = 0x7fc00000;
inline constexpr float half_largest = 65504.0f;

std::uint16_t half_from_float(float value);
// As above, but a finite value beyond half_largest becomes +-half_largest. Infinities stay.
std::uint16_t half_from_float_saturating(float value);
float float_from_half(std::uint16_t half);

std::uint16_t bfloat16_from_float(float value);
// As above, but a finite value stays finite: the largest bfloat16 is 0x7f7f, 3.39e38.
std::uint16_t bfloat16_from_float_saturating(float value);
float float_from_bfloat16(std::uint16_t bfloat16);

}  // namespace dedloc::tensor
