#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "dedloc/tensor/blocks8.h"
#include "dedloc/tensor/half.h"

namespace dedloc::tensor::reference {
namespace {

void write_word(std::uint32_t word, std::span<std::uint8_t> out) {
    for (unsigned i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

std::uint32_t read_word(ByteView in) {
    std::uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i) word |= static_cast<std::uint32_t>(in[i]) << (8 * i);
    return word;
}

void encode_block(std::span<float> values, std::span<std::uint8_t> out) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    float lo = 0;
    float hi = 0;
    for (float& value : values) {
        if (!std::isfinite(value)) return write_word(block8_not_finite, out);
        value = std::clamp(value, -block8_magnitude_largest, block8_magnitude_largest);
        lo = std::min(lo, value);
        hi = std::max(hi, value);
    }
    const float range = hi - lo;
    if (range < block8_range_smallest) return;
    const std::uint32_t scale_bits = (std::bit_cast<std::uint32_t>(range / 255.0f) + 0xff) & ~0xffu;
    const float inverse = 1.0f / std::bit_cast<float>(scale_bits);
    const double zero = std::nearbyint(-static_cast<double>(lo * inverse));
    write_word(scale_bits | static_cast<std::uint32_t>(zero), out);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float scaled = values[i] * inverse;
        const double code = std::nearbyint(static_cast<double>(scaled) + zero);
        out[4 + i] = static_cast<std::uint8_t>(std::min(code, 255.0));
    }
}

}  // namespace

void blocks8_from_floats(std::span<const float> floats,
                         std::span<std::uint8_t> blocks,
                         float factor) {
    for (std::size_t first = 0; first < floats.size(); first += block8_elements) {
        const std::size_t count = std::min(block8_elements, floats.size() - first);
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = floats[first + i] * factor;
        encode_block(values, blocks.subspan(first / block8_elements * block8_bytes, 4 + count));
    }
}

void floats_from_blocks8(ByteView blocks, std::span<float> floats) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::size_t block = i / block8_elements * block8_bytes;
        const std::size_t place = i % block8_elements;
        if (place == 0) word = read_word(blocks.subspan(block, 4));
        const std::uint32_t scale_bits = word & ~0xffu;
        const int code = blocks[block + 4 + place] - static_cast<int>(word & 0xff);
        floats[i] = scale_bits > block8_scale_bits_largest
                        ? std::bit_cast<float>(float_nan_bits)
                        : std::bit_cast<float>(scale_bits) * static_cast<float>(code);
    }
}

void add_weighted_blocks8(std::span<float> accumulator, ByteView blocks, float weight) {
    std::vector<float> decoded(accumulator.size());
    floats_from_blocks8(blocks, decoded);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
        const float product = weight * decoded[i];
        accumulator[i] = accumulator[i] + product;
    }
}

}  // namespace dedloc::tensor::reference
