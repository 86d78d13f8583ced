// hivemind's compressions: the buffer of its Tensor message (runtime.proto), for runs with Python
// peers; equal to its own in the golden vectors, bit for bit. All numbers are little-endian. n
// elements of fp32, rows of `columns`:
//
//   none            fp32[n]; other dtypes in their own size (bfloat16: 4 bytes from older peers)
//   float16         fp16[n]; clamped to ±65504 first, infinities too
//   meanstd_16bit   fp16[n], fp32 mean[rows], fp32 std[rows]: (x - mean) / std
//   uniform_8bit    int64 256, fp32 codebook[256], uint8[n]: 256 steps of 6 σ / 256 around the mean
//   quantile_8bit   int64 256, fp32 codebook[256], uint8[n]: bins between estimated quantiles
//   blockwise_8bit  int64 blocks, int64 256, fp32 absmax[blocks], fp32 codebook[256], uint8[n]:
//                   blocks of 4,096 (bitsandbytes' signed dynamic map)
//
// The codebooks of uniform and quantile hold the mean of each bin (0 if empty). Decoders read the
// table that came, so encoders of several versions understand each other.
//
// Source: hivemind/compression/*.py at 4bd43b77; golden vectors in tests/vectors (none of
//         blockwise_8bit there: the map follows bitsandbytes' create_dynamic_map).
// Cost:   none, float16: memory speed; meanstd 2 passes; uniform 3; quantile sorts (radix);
//         blockwise a table look-up per element. `dedloc-lab codecs` prints speeds.
// Errors: encoding refuses (bad_input) infinities and NaN where a statistic would spread them: all
//         but none and float16. Decoding checks every count against `out` and every code against
//         the table; the table may hold infinities or NaN, so check tensor::all_finite after.
// Thread: any.

#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/tensor/view.h"

namespace dedloc::codec {

// The numbers of CompressionType in runtime.proto.
enum class HivemindCompression : std::uint8_t {
    none = 0,
    meanstd_16bit = 1,
    float16 = 2,
    quantile_8bit = 3,
    uniform_8bit = 4,
    blockwise_8bit = 5,
};

std::vector<HivemindCompression> all_hivemind_compressions();
std::string_view to_string(HivemindCompression compression);  // "MEANSTD_16BIT"
Result<HivemindCompression> hivemind_compression_from_number(std::uint64_t number);

// `columns`: size of the last axis; divides values.size() (else it is our bug).
Result<Bytes> encode_hivemind(HivemindCompression compression,
                              std::span<const float> values,
                              std::size_t columns);

// Errors: bad_input: a length, count or code does not fit; unsupported: `none` with a dtype that
//         has no fractions. `out` is then unspecified.
Ok decode_hivemind(HivemindCompression compression,
                   ByteView buffer,
                   std::size_t columns,
                   std::span<float> out,
                   tensor::Dtype dtype = tensor::Dtype::float32);

}  // namespace dedloc::codec
