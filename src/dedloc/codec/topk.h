// Top-k: of every chunk of 4,096 elements the few largest, in 2 bits each. 64 of 4,096 take 0.0215
// bytes an element, 186 times less than fp32; what is not sent must be kept by error feedback
// (error_feedback.h), else training stalls.
//
// A chunk of m elements (4,096; the last one may be shorter) keeps k = ceil(kept × m / 4,096) of
// them; with l = floor(log2(4,096 / kept)) (6 of 64) it is
//
//   fp32 small, fp32 large     two magnitudes, little-endian, 0 ≤ small ≤ large
//   k × l bits                 the low bits of the places in the chunk, which ascend
//   k + ((m - 1) >> l) bits    a bitmap in which bit (place >> l) + i is set for the i-th, from 0
//   k × 2 bits                 bit 0: negative; bit 1: large
//
// each filled up to whole bytes: 8 + 48 + 16 + 16 for 64 of 4,096. (Elias and Fano's way to write
// ascending numbers: 8 bits a place instead of 12, and still as long whatever the places are.)
// Bit strings fill bytes from their lowest bit. The two magnitudes are the means of the halves that
// two-means clustering finds. Of equal magnitudes the first places are kept.
//
// Source: the shape of SparseLoCo (Covenant-72B, arXiv:2603.08163): top-64 of 4,096 and 2 bits.
// Cost:   encoding selects per chunk; decoding touches k elements a chunk.
// Errors: encode refuses numbers that are not finite; decoding refuses bytes that encode cannot
//         have written (length, places, magnitudes), before anything is added.
// Thread: any. The same bits on every CPU.

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::codec {

inline constexpr std::size_t topk_chunk = 4096;

struct TopK {
    std::size_t kept = 64;  // of a whole chunk, 1 to 4,096

    std::size_t encoded_size(std::size_t elements_count) const;
    Result<Bytes> encode(std::span<const float> values) const;
    // Elements that the bytes do not name become 0.
    Ok decode(ByteView encoded, std::span<float> out) const;
    // sum[i] += weight × decoded[i] for the named elements; the others keep their bits.
    // Errors: also numbers or weights that a sum cannot hold (codec.h: verify).
    Ok decode_accumulate(ByteView encoded, float weight, std::span<float> sum) const;
};

// Entries of the table of codecs (codec.h): top-64, "sparse", and top-512, "sparse_sum".
inline constexpr std::size_t sparse_kept = 64;
inline constexpr std::size_t sparse_sum_kept = 512;

// Numbers that are not finite make their chunk's magnitudes infinite; bytes that encode cannot have
// written have an infinite magnitude bound, so that nobody adds them. `factor` scales the values
// first.
template <std::size_t kept>
std::size_t sparse_size(std::size_t elements_count);
template <std::size_t kept>
void sparse_from_floats(std::span<const float> values, std::span<std::uint8_t> out, float factor);
template <std::size_t kept>
void floats_from_sparse(ByteView encoded, std::span<float> out);
template <std::size_t kept>
void add_weighted_sparse(std::span<float> accumulator, ByteView encoded, float weight);
template <std::size_t kept>
float largest_magnitude_of_sparse(ByteView encoded);

// Adds, and sets the bits of the elements that the bytes name; bit i % 64 of word i / 64 is element
// i's. Named elements are few: a sum is made, divided and looked at without another pass over it.
void add_weighted_sparse(std::span<float> accumulator,
                         ByteView encoded,
                         float weight,
                         std::span<std::uint64_t> named);
// Squares of weight × the numbers in bytes of the right length, summed up.
double sum_of_squares_sparse(ByteView encoded, std::size_t elements_count, float weight);
// Divides the elements that have a bit. Returns whether they are finite then.
bool divide_named(std::span<float> x, std::span<const std::uint64_t> named, float divisor);

}  // namespace dedloc::codec
