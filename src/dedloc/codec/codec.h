// Vectors of fp32 as bytes for the network, and back. One table entry is one codec (codec.cpp).
//
// An average is encoded once and everybody, its owner too, applies the decoded bytes (promise 1),
// so decoding gives the same bits on every CPU. Bytes are little-endian; their number depends on
// the number of elements only, so that a receiver knows it beforehand.
//
//   fp32  exact.
//   fp16  round to nearest even; relative error at most 2^-11 down to 6.1e-5, absolute error at
//         most 2^-25 below. A finite value beyond 65504 becomes +-65504.
//   bf16  round to nearest even; relative error at most 2^-8; a finite value stays finite.
//   blockwise8
//         blocks of 1,024 elements with a scale and a zero each, 1.004 bytes an element; error at
//         most 0.002 of the block's range, whatever the size of the group (tensor/blocks8.h). RMSE
//         of an average of normal data, contributions and average encoded: 1.04 %.
//   sparse
//         of every 4,096 elements the 64 largest, in 2 bits each, 0.0215 bytes an element (topk.h).
//         The rest comes later: replica/unsent_gradients.h.
//   sparse_sum
//         the same with 512 of them, 0.1113 bytes an element: in it an owner sends on the sum of
//         many sparse contributions (allreduce/sparse_sums.h). No run file can choose it.
//   low_rank
//         every 16,384 elements as the sum of four products of two vectors, 0.0322 bytes an element
//         (low_rank.h). The rest comes later, likewise.
//
// Infinity and NaN stay visible in every codec, and decoding bytes from the network may give them:
// decode_accumulate and verify refuse such bytes before a number of them is added (promise 5). Who
// adds without (accumulate_verified) looks at the sum, and verifies where it is odd (reduce.cpp).
//
// Every part of a vector is encoded by itself and may have any length. Inside a part, windows that
// begin at a multiple of block_elements(id) are encodings by themselves (window()): a part can be
// summed and encoded window by window while everything stays in the first-level cache.
//
// Cost:   memory speed, no allocation (codec_bench.cpp).
// Thread: any.

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::codec {

// The numbers are on the wire and never change their meaning.
enum class CodecId : std::uint8_t {
    fp32 = 0,
    fp16 = 1,
    bf16 = 2,
    blockwise8 = 3,
    sparse = 4,
    low_rank = 5,
    sparse_sum = 6,
};

// |weight × value| of an accepted contribution is at most this, so that no sum of up to 2^27 of
// them overflows.
inline constexpr float accumulated_magnitude_max = 0x1p100f;

// Every codec this build has, in the order of their numbers.
std::vector<CodecId> all_codecs();
std::string_view to_string(CodecId id);  // the run file's word: "fp16"
// Knows those that a run file may choose. Errors: bad_input: names them.
Result<CodecId> codec_from_string(std::string_view text);
Result<CodecId> codec_from_number(std::uint64_t number);  // unsupported: a newer peer's codec

// Elements of one block: 1, or as many as share something.
std::size_t block_elements(CodecId id);
// Exact number of bytes of so many elements. At most 8 bytes an element.
std::size_t encoded_size(CodecId id, std::size_t elements_count);
// Encoded bytes an element of a long vector: of whole blocks.
double bytes_per_element(CodecId id);
// Does an encoding hold a little of the vector (sparse, low_rank), and the sender keep the rest for
// later? Contributions in such a codec are gathered, not added (allreduce/gathered.h): a sum is
// less sparse, and of a higher rank, than they.
bool is_sparse(CodecId id);
// The codec in which an owner sends on the sum of many contributions in this one, and keeps what it
// leaves out (allreduce/sparse_sums.h). None: there is no such sum.
std::optional<CodecId> sum_codec(CodecId id);
// A round with more contributors than this adds them, where there is a sum_codec. With 16 of them a
// peer sends 15 contributions' worth of bytes where they are gathered, and 6 where they are added.
inline constexpr std::size_t gather_max_usual = 16;
bool adds_sums(CodecId id, std::size_t contributors, std::size_t gather_max);
// An average is so many times as long as a contribution, where so many contribute: gathered, an
// owner sends each of them the contributions of all others.
double average_cost(CodecId id, std::size_t contributors, std::size_t gather_max);
// Where elements [first, first + count) of an encoded part lie; itself an encoding of `count`
// elements. `first` is a multiple of block_elements(id); so is `count`, or the part ends there.
ByteView window(CodecId id, ByteView encoded, std::size_t first, std::size_t count);

// Encodes factor × values, the product rounded to fp32 first (exact for a power of two).
// out.size() == encoded_size(id, values.size()), else it is our bug. Nothing is allocated.
void encode_into(CodecId id,
                 std::span<const float> values,
                 std::span<std::uint8_t> out,
                 float factor = 1.0f);
Bytes encode(CodecId id, std::span<const float> values);

// Errors: bad_input when the length is not encoded_size(id, out.size()); out is then untouched.
//         Values may be infinite or NaN: check tensor::all_finite, or verify() before.
Ok decode(CodecId id, ByteView encoded, std::span<float> out);

// An upper bound of every |decoded value|, at most 1 % too high (low_rank: that a longer last block
// would have); infinity if one is not finite. The bytes have a right length (verify).
float magnitude_bound(CodecId id, ByteView encoded);

// Is one of these numbers the largest that the codec has, as all that are larger become? Only of
// fp16 (65,504): the range of the others is fp32's. The bytes have a right length.
bool is_at_its_range(CodecId id, ByteView encoded);

// May these bytes be added with this weight? Reads the bytes once (block scales only where there
// are such).
// Errors: bad_input: wrong length, numbers that are not finite, or beyond
//         accumulated_magnitude_max.
Ok verify(CodecId id, ByteView encoded, std::size_t elements_count, float weight);

// sum[i] += weight × decoded[i], from the bytes, without a buffer between; product and sum are
// rounded one by one, so the bits are those of decode, then multiply, then add. Nothing is checked
// but the length (our bug): for bytes that verify() has passed, whole or window by window.
void accumulate_verified(CodecId id, ByteView encoded, float weight, std::span<float> sum);

// verify(), then accumulate_verified(). On an error `sum` is untouched.
Ok decode_accumulate(CodecId id, ByteView encoded, float weight, std::span<float> sum);

}  // namespace dedloc::codec
