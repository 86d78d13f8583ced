// The bytes of one part: a contribution as it is encoded, and whether those of an average are
// sound. Pure functions; the same input gives the same bits on every CPU (promise 1).
//
//   encode   x = sum × 2^-k, k = scale_exponent(…): an exact scaling, then the codec; fp32 has room
//            for sums as they are, so that they travel from where they lie
//
// Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/plan.h"

namespace dedloc::allreduce {

// The codec of a part of a plan that check_plan() has passed.
codec::CodecId codec_of(const consensus::RoundPlan& plan, std::uint32_t part);

// The codec of its average: another one where owners add sparse contributions (sparse_sums.h).
codec::CodecId average_codec_of(const consensus::RoundPlan& plan, std::uint32_t part);

// The exponent of the sums of a contribution with this input; 0 for fp32.
int scale_exponent(codec::CodecId codec, const consensus::MemberInput& input);

SharedBytes encode_contribution(codec::CodecId codec,
                                std::span<const float> sum,
                                const consensus::MemberInput& input);
// The same bytes, where the codec's are those of memory; else none. `owner` keeps the sums.
SharedBytes contribution_as_it_lies(codec::CodecId codec,
                                    std::span<const float> sum,
                                    std::shared_ptr<const void> owner);

// Are these the bytes that `digest` names, and do they decode to `count` finite numbers?
bool is_sound_average(codec::CodecId codec,
                      ByteView encoded,
                      std::size_t count,
                      const Digest& digest);

}  // namespace dedloc::allreduce
