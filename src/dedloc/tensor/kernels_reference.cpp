#include <array>
#include <bit>
#include <cstring>

#include "dedloc/tensor/half.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::tensor::reference {
namespace {

template <auto convert>
void write_words(std::span<const float> floats, std::span<std::uint8_t> out) {
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::uint16_t word = convert(floats[i]);
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

}  // namespace

void halves_from_floats(std::span<const float> floats, std::span<std::uint8_t> halves) {
    write_words<half_from_float>(floats, halves);
}

void halves_from_floats_saturating(std::span<const float> floats, std::span<std::uint8_t> halves) {
    write_words<half_from_float_saturating>(floats, halves);
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

bool all_finite(std::span<const float> x) {
    for (const float value : x) {
        if ((std::bit_cast<std::uint32_t>(value) & 0x7f800000) == 0x7f800000) return false;
    }
    return true;
}

double sum_of_squares(std::span<const float> x) {
    std::array<double, 16> lanes{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = x[i];
        const double square = value * value;
        lanes[i % 16] = lanes[i % 16] + square;
    }
    for (std::size_t width = 8; width >= 1; width /= 2) {
        for (std::size_t j = 0; j < width; ++j) lanes[j] = lanes[j] + lanes[j + width];
    }
    return lanes[0];
}

}  // namespace dedloc::tensor::reference
