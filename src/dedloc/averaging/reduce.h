// The arithmetic of one part: encode a contribution, reduce contributions to an average, decode it.
// Pure functions; the same input gives the same bits on every CPU (promise 1).
//
//   encode   x = sum × 2^-k, k = scale_exponent(…): an exact scaling, then the codec; fp32 has room
//            for sums as they are, so that they travel from where they lie
//   reduce   acc += decode(x_i) × 2^k_i in the order of the members that send; acc / total weight,
//            piecewise; encoded once
//   apply    everybody, the owner too, decodes those bytes
//
// Cost: see bench/README.md. Thread: any (meant for workers).

#pragma once
#include <memory>
#include <span>
#include <vector>

#include "dedloc/averaging/contribution.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/codec/codec.h"

namespace dedloc::averaging {

// Of a part of a plan that check_plan() has passed.
codec::CodecId codec_of(const consensus::Plan& plan, std::uint32_t part);

// Of the sums of a contribution with this input; 0 for fp32.
int scale_exponent(codec::CodecId codec, const consensus::MemberInput& input);

SharedBytes encode_contribution(codec::CodecId codec,
                                std::span<const float> sum,
                                const consensus::MemberInput& input);
// The same bytes, where the codec's are those of memory; else none. `owner` keeps the sums.
SharedBytes contribution_as_it_lies(codec::CodecId codec,
                                    std::span<const float> sum,
                                    std::shared_ptr<const void> owner);

struct PartInput {
    std::uint32_t member = 0;  // who sends it
    SharedBytes encoded;
    Bytes members{};  // of a sum (sum_part): who is in it; empty: a contribution of the member
};

struct RefusedInput {
    std::uint32_t member = 0;
    const char* why = "";
};

struct ReducedPart {
    Bytes included;  // bitmap over the plan's members
    SharedBytes encoded;
    Digest digest;
    std::vector<RefusedInput> refused;
};

// `inputs` in the order in which they are added (the plan's member order). Members that bring no
// weight do not appear. Refused is whose numbers are not finite, and whose mean over its samples
// has in this part a norm beyond `norm_max` (0: any). With no input left the average is zero.
// Nobody is looked at alone while the sum shows that all is well: it is finite, and shorter than
// half of what the member with the fewest samples might bring.
ReducedPart reduce_part(const consensus::Plan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs,
                        double norm_max = 0);

// The same without division, for who adds further: the sum as fp32, whatever the part's codec, and
// no digest.
ReducedPart sum_part(const consensus::Plan& plan,
                     std::uint32_t part,
                     const std::vector<PartInput>& inputs,
                     double norm_max = 0);

// Are these the bytes that `digest` names, and do they decode to `count` finite numbers?
bool is_sound_average(codec::CodecId codec,
                      ByteView encoded,
                      std::size_t count,
                      const Digest& digest);

}  // namespace dedloc::averaging
