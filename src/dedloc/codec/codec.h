// Vectors of fp32 as bytes for the network, and back. One table entry is one codec (codec.cpp).
//
// An average is encoded once and everybody, its owner too, applies the decoded bytes (promise 1),
// so decoding gives the same bits on every CPU. Bytes are little-endian; their number depends on
// the number of elements only, so that a receiver knows it beforehand.
//
//   fp32  exact.
//   fp16  round to nearest even; relative error at most 2^-11 down to 6.1e-5, absolute error at
//         most 2^-25 below. A finite value beyond 65504 becomes +-65504. Infinity and NaN stay
//         what they are, so that validation still sees them.
//
// Cost:   memory speed, no allocation (codec_bench.cpp).
// Thread: any.

#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::codec {

// The numbers are on the wire and never change their meaning.
enum class CodecId : std::uint8_t { fp32 = 0, fp16 = 1 };

// Every codec this build has, in the order of their numbers.
std::vector<CodecId> all_codecs();
std::string_view to_string(CodecId id);                    // the run file's word: "fp16"
Result<CodecId> codec_from_string(std::string_view text);  // bad_input: names the known ones
Result<CodecId> codec_from_number(std::uint64_t number);   // unsupported: a newer peer's codec

// Exact number of bytes of so many elements. At most 8 bytes an element.
std::size_t encoded_size(CodecId id, std::size_t elements_count);

// out.size() == encoded_size(id, values.size()), else it is our bug.
void encode(CodecId id, std::span<const float> values, std::span<std::uint8_t> out);
Bytes encode(CodecId id, std::span<const float> values);

// Errors: bad_input when the length is not encoded_size(id, out.size()); out is then untouched.
//         Values may be infinite or NaN: check tensor::all_finite where that matters.
Ok decode(CodecId id, ByteView encoded, std::span<float> out);

// accumulator[i] += weight * decoded[i]; the bits are those of decode, then multiply, then add.
Ok decode_add_weighted(CodecId id, ByteView encoded, float weight, std::span<float> accumulator);

}  // namespace dedloc::codec
