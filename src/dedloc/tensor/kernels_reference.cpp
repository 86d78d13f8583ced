#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dedloc/tensor/half.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::tensor::reference {
namespace {

template <auto convert>
void write_words(std::span<const float> floats, std::span<std::uint8_t> out, float factor = 1.0f) {
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::uint16_t word = convert(floats[i] * factor);
        out[2 * i] = static_cast<std::uint8_t>(word & 0xff);
        out[2 * i + 1] = static_cast<std::uint8_t>(word >> 8);
    }
}

template <auto convert>
void read_words(ByteView in, std::span<float> floats) {
    for (std::size_t i = 0; i < floats.size(); ++i) {
        floats[i] = convert(static_cast<std::uint16_t>(in[2 * i] | (in[2 * i + 1] << 8)));
    }
}

float largest_magnitude(std::span<const float> floats) {
    float largest = 0;
    for (const float value : floats) {
        if (!std::isfinite(value)) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, std::abs(value));
    }
    return largest;
}

}  // namespace

void halves_from_floats(std::span<const float> floats, std::span<std::uint8_t> halves) {
    write_words<half_from_float>(floats, halves);
}

void halves_from_floats_saturating(std::span<const float> floats,
                                   std::span<std::uint8_t> halves,
                                   float factor) {
    write_words<half_from_float_saturating>(floats, halves, factor);
}

void bfloat16_from_floats_saturating(std::span<const float> floats,
                                     std::span<std::uint8_t> bfloat16,
                                     float factor) {
    write_words<bfloat16_from_float_saturating>(floats, bfloat16, factor);
}

void floats_from_halves(ByteView halves, std::span<float> floats) {
    read_words<float_from_half>(halves, floats);
}

void bfloat16_from_floats(std::span<const float> floats, std::span<std::uint8_t> bfloat16) {
    write_words<bfloat16_from_float>(floats, bfloat16);
}

void floats_from_bfloat16(ByteView bfloat16, std::span<float> floats) {
    read_words<float_from_bfloat16>(bfloat16, floats);
}

void add_weighted(std::span<float> accumulator, std::span<const float> x, float weight) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float product = weight * x[i];
        accumulator[i] = accumulator[i] + product;
    }
}

void scale(std::span<float> x, float factor) {
    for (float& value : x) value *= factor;
}

void divide(std::span<float> x, float divisor) {
    for (float& value : x) value /= divisor;
}

bool all_finite(std::span<const float> x) {
    for (const float value : x) {
        if ((std::bit_cast<std::uint32_t>(value) & 0x7f800000) == 0x7f800000) return false;
    }
    return true;
}

float largest_magnitude_of_floats(ByteView little_endian) {
    std::vector<float> floats(little_endian.size() / 4);
    if (!floats.empty()) std::memcpy(floats.data(), little_endian.data(), 4 * floats.size());
    return largest_magnitude(floats);
}

float largest_magnitude_of_halves(ByteView halves) {
    std::vector<float> floats(halves.size() / 2);
    floats_from_halves(halves, floats);
    return largest_magnitude(floats);
}

float largest_magnitude_of_bfloat16(ByteView bfloat16) {
    std::vector<float> floats(bfloat16.size() / 2);
    floats_from_bfloat16(bfloat16, floats);
    return largest_magnitude(floats);
}

double sum_of_squares(std::span<const float> x) { return dot(x, x); }

double dot(std::span<const float> x, std::span<const float> y) {
    std::array<double, 16> lanes{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
        lanes[i % 16] = lanes[i % 16] + product;
    }
    for (std::size_t width = 8; width >= 1; width /= 2) {
        for (std::size_t j = 0; j < width; ++j) lanes[j] = lanes[j] + lanes[j + width];
    }
    return lanes[0];
}

}  // namespace dedloc::tensor::reference
