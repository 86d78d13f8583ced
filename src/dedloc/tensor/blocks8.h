// Vectors in 8 bits an element: blocks of 1,024 elements, each with a scale and a zero of its own.
//
// A block of n elements (1,024; the last one may be shorter) is 4 + n bytes: a little-endian word,
// then one code an element. The upper 24 bits of the word, with 8 zero bits behind, are the scale
// as fp32 (16 significant bits); the lower 8 bits are the code of zero, z. The value of code q is
// scale × (q - z), which fp32 holds exactly: decoding rounds nothing. Zero stays zero. A range of
// blocks is an encoding of its own.
//
// Encoding a block: lo = min(0, smallest), hi = max(0, largest), scale = (hi - lo) / 255 rounded up
// to 16 significant bits, z = nearest(-lo / scale), q = nearest(x / scale + z), at most 255;
// 1/scale is rounded to fp32 once and multiplied. The error is at most 0.501 scale: it depends on
// the block alone, not on how many vectors are averaged. On normal data one encoding costs an RMSE
// of 0.74 %, a contribution and the average after it 1.04 % (docs/codecs.md; symmetric codes with a
// scale of |largest| / 127 cost 1.11 % and lose half of their codes on one-sided data).
//
// Not finite: a block with an infinity or a NaN is encoded as all NaN (word 0x7fc00000), so that
// who checks sees it. Decoding is total: any bytes give numbers; a word whose scale is negative,
// not finite or above 2^120 gives NaN for its block. Magnitudes beyond 2^126 become 2^126, and a
// block within 2^-100 of zero becomes zero.
//
// Source: our own; zero points are those of integer quantisation (Jacob et al. 2018, §2.1).
// Cost:   memory speed. Nothing is allocated. Thread: any. Errors: sizes that do not fit are our
//         bug (DEDLOC_CHECK). The same bits on every CPU, those of namespace `reference`.

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/base/bytes.h"

namespace dedloc::tensor {

inline constexpr std::size_t block8_elements = 1024;
inline constexpr std::size_t block8_bytes = 4 + block8_elements;
inline constexpr std::uint32_t block8_not_finite = 0x7fc00000;
inline constexpr std::uint32_t block8_scale_bits_largest = 0x7b800000;  // 2^120
inline constexpr float block8_magnitude_largest = 0x1p126f;
inline constexpr float block8_range_smallest = 0x1p-100f;

constexpr std::size_t blocks8_size(std::size_t elements_count) {
    return elements_count + 4 * ((elements_count + block8_elements - 1) / block8_elements);
}

// Encodes factor × floats, the product rounded to fp32 first.
void blocks8_from_floats(std::span<const float> floats,
                         std::span<std::uint8_t> blocks,
                         float factor = 1.0f);
void floats_from_blocks8(ByteView blocks, std::span<float> floats);

// accumulator[i] += weight × decoded[i]: the product is rounded, then the sum.
void add_weighted_blocks8(std::span<float> accumulator, ByteView blocks, float weight);

// No |decoded value| is larger; infinity if one may be NaN. Reads the blocks' words only: for
// blocks that were encoded above it is less than 1 % too high.
float largest_magnitude_of_blocks8(ByteView blocks);

namespace reference {
void blocks8_from_floats(std::span<const float> floats,
                         std::span<std::uint8_t> blocks,
                         float factor = 1.0f);
void floats_from_blocks8(ByteView blocks, std::span<float> floats);
void add_weighted_blocks8(std::span<float> accumulator, ByteView blocks, float weight);
}  // namespace reference

}  // namespace dedloc::tensor
