// Low rank: every block of 16,384 elements, taken row by row as a matrix M of 128 × 128, becomes
// the sum of four products s p qᵀ: 0.0322 bytes an element, 124 times less than fp32. What is not
// sent must be kept by error feedback (replica/unsent_gradients.h), else training stalls.
//
// A block is any 16,384 elements that follow each other: no shapes of tensors are asked for, so
// that a part is encoded without knowing the model, and every part by itself. A matrix of other
// than 128 columns is therefore of a higher rank here than in its own shape (codecs.md has the
// price). A block of m elements (the last one may be shorter) has c = ceil(√m) columns,
// d = ceil(m / c) rows, filled up with zeros, and r = min(4, d) products; it is
//
//   r × fp32               s, little-endian
//   r × d × 4 bits         p, one vector after the other
//   r × c × 4 bits         q, likewise
//
// in which 4 bits are a whole number of -8 to 7, the low half of a byte before the high one. The
// encoder writes -7 to 7. The number at row i and column j is the sum over k, from 0, of
// (s_k p_ki) q_kj, each product and each sum rounded by itself: the same bits on every CPU.
//
// The encoder orthonormalises P = M Q (Gram-Schmidt, in order) and takes Q = Mᵀ P, twice, from
// vectors that never change; then P is rounded, and Q taken again of what it was rounded to. That
// is PowerSGD's step (power_sgd.h), but of one peer's matrix alone: factors are gathered, not
// averaged, so that a peer receives those of all others, and bytes grow with their number. PowerSGD
// averages P and then Q, as long for any number of peers; but its Q follows from the average of all
// P, that is, it takes two exchanges one after the other, of which the second is worth nothing
// where the members of the first differ from its own. Gathering needs what a sparse round needs,
// and no more. PowerSGD also starts from the last round's Q; here that was taken out of M a round
// ago, and two steps from any vectors find what is left.
//
// Source: Vogels et al. 2019 (PowerSGD), Halko et al. 2011 (the power step from fixed vectors).
// Cost:   16 products an element to encode, 4 to decode (codec_bench.cpp); 70 KiB of stack.
// Errors: none; numbers that are not finite make their block's s infinite.
// Thread: any. A function of the numbers alone; a factor that is a power of two scales s and
//         nothing else, where nothing leaves the range of fp32.

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/base/bytes.h"

namespace dedloc::codec {

inline constexpr std::size_t low_rank_side = 128;
inline constexpr std::size_t low_rank_block = low_rank_side * low_rank_side;
inline constexpr std::size_t low_rank_products = 4;  // of a block
inline constexpr std::size_t low_rank_block_bytes =
    low_rank_products * 4 + low_rank_products * 2 * low_rank_side / 2;

// An entry of the table of codecs (codec.h, "low_rank").
std::size_t low_rank_size(std::size_t elements_count);
void low_rank_from_floats(std::span<const float> values, std::span<std::uint8_t> out, float factor);
void floats_from_low_rank(ByteView encoded, std::span<float> out);
void add_weighted_low_rank(std::span<float> accumulator, ByteView encoded, float weight);
// This is a bound also of the zeros that fill a last block up; it is infinite where no number of
// elements has so many bytes.
float largest_magnitude_of_low_rank(ByteView encoded);

}  // namespace dedloc::codec
