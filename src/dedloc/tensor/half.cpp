#include "dedloc/tensor/half.h"

#include <bit>

namespace dedloc::tensor {
namespace {

// value / 2^shift, rounded to nearest, ties to even. 1 <= shift <= 31.
std::uint32_t shift_right_to_even(std::uint32_t value, unsigned shift) {
    const std::uint32_t quotient = value >> shift;
    const std::uint32_t remainder = value & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    const bool up = remainder > half || (remainder == half && (quotient & 1) == 1);
    return quotient + (up ? 1 : 0);
}

constexpr int float_bias = 127;
constexpr int half_bias = 15;

}  // namespace

std::uint16_t half_from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
    const int exponent = static_cast<int>((bits >> 23) & 0xff);
    const std::uint32_t fraction = bits & 0x7fffff;
    if (exponent == 0xff) {
        return fraction != 0 ? half_nan : static_cast<std::uint16_t>(sign | 0x7c00);
    }
    const int half_exponent = exponent - float_bias + half_bias;
    if (half_exponent >= 31) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (half_exponent >= 1) {
        // A carry out of the fraction moves into the exponent, up to infinity, as it should.
        const std::uint32_t joined = (static_cast<std::uint32_t>(half_exponent) << 23) | fraction;
        return static_cast<std::uint16_t>(sign | shift_right_to_even(joined, 13));
    }
    // Denormal half: a multiple of 2^-24. Below 2^-25 everything rounds to zero.
    if (half_exponent < -10) return sign;
    const std::uint32_t significand = fraction | 0x800000;
    const auto shift = static_cast<unsigned>(14 - half_exponent);
    return static_cast<std::uint16_t>(sign | shift_right_to_even(significand, shift));
}

std::uint16_t half_from_float_saturating(float value) {
    const std::uint16_t half = half_from_float(value);
    const bool overflowed = (half & 0x7fff) == 0x7c00 &&
                            (std::bit_cast<std::uint32_t>(value) & 0x7fffffff) != 0x7f800000;
    return overflowed ? static_cast<std::uint16_t>((half & 0x8000) | 0x7bff) : half;
}

float float_from_half(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1f;
    std::uint32_t fraction = half & 0x3ff;
    if (exponent == 31) {
        return std::bit_cast<float>(fraction != 0 ? float_nan_bits : sign | 0x7f800000);
    }
    if (exponent != 0) {
        const std::uint32_t float_exponent = exponent - half_bias + float_bias;
        return std::bit_cast<float>(sign | (float_exponent << 23) | (fraction << 13));
    }
    if (fraction == 0) return std::bit_cast<float>(sign);
    std::uint32_t float_exponent = float_bias - half_bias + 1;
    while ((fraction & 0x400) == 0) {  // at most 10 turns
        fraction <<= 1;
        --float_exponent;
    }
    return std::bit_cast<float>(sign | (float_exponent << 23) | ((fraction & 0x3ff) << 13));
}

std::uint16_t bfloat16_from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return bfloat16_nan;
    return static_cast<std::uint16_t>(shift_right_to_even(bits, 16));
}

std::uint16_t bfloat16_from_float_saturating(float value) {
    const std::uint16_t word = bfloat16_from_float(value);
    const bool overflowed = (word & 0x7fff) == 0x7f80 &&
                            (std::bit_cast<std::uint32_t>(value) & 0x7fffffff) != 0x7f800000;
    return overflowed ? static_cast<std::uint16_t>((word & 0x8000) | 0x7f7f) : word;
}

float float_from_bfloat16(std::uint16_t bfloat16) {
    const std::uint32_t bits = static_cast<std::uint32_t>(bfloat16) << 16;
    return std::bit_cast<float>((bits & 0x7fffffff) > 0x7f800000 ? float_nan_bits : bits);
}

}  // namespace dedloc::tensor
