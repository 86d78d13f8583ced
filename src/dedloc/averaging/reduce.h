// The arithmetic of one part: encode a contribution, reduce contributions to an average, decode it.
// Pure functions; the same input gives the same bits on every CPU (promise 1).
//
//   encode   x = sum × 2^-k, k = scale_exponent(input): an exact scaling, then the codec
//   reduce   acc += decode(x_i) × 2^k_i in member order; acc / total weight, piecewise; encoded
//   once apply    everybody, the owner too, decodes those bytes
//
// Cost: see bench/README.md. Thread: any (meant for workers).

#pragma once
#include <memory>
#include <span>
#include <vector>

#include "dedloc/averaging/messages.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/codec/codec.h"

namespace dedloc::averaging {

SharedBytes encode_contribution(codec::CodecId codec, std::span<const float> sum, int exponent);

struct PartInput {
    std::uint32_t member = 0;
    SharedBytes encoded;
};

struct ReducedPart {
    Bytes included;  // bitmap over the plan's members
    SharedBytes encoded;
    Digest digest;
    std::vector<std::uint32_t> refused;  // members whose numbers were not finite
};

// `inputs` in the order in which they are added (the plan's member order). Members that bring no
// weight do not appear. With no input left the average is zero.
ReducedPart reduce_part(const Plan& plan, std::uint32_t part, const std::vector<PartInput>& inputs);

// Are these the bytes that `digest` names, and do they decode to `count` finite numbers?
bool is_sound_average(codec::CodecId codec,
                      ByteView encoded,
                      std::size_t count,
                      const Digest& digest);

}  // namespace dedloc::averaging
