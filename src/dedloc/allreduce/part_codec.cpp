#include "dedloc/allreduce/part_codec.h"

#include <bit>
#include <cmath>

#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {

codec::CodecId codec_of(const consensus::RoundPlan& plan, std::uint32_t part) {
    return static_cast<codec::CodecId>(plan.codec_of(plan.parts[part]));
}

codec::CodecId average_codec_of(const consensus::RoundPlan& plan, std::uint32_t part) {
    return sums_sparsely(plan, part) ? static_cast<codec::CodecId>(plan.sum_codec)
                                     : codec_of(plan, part);
}

int scale_exponent(codec::CodecId codec, const consensus::MemberInput& input) {
    return codec == codec::CodecId::fp32 ? 0 : scale_exponent(input);
}

SharedBytes contribution_as_it_lies(codec::CodecId codec,
                                    std::span<const float> sum,
                                    std::shared_ptr<const void> owner) {
    if (codec != codec::CodecId::fp32 || std::endian::native != std::endian::little) return {};
    return {std::move(owner),
            ByteView(reinterpret_cast<const std::uint8_t*>(sum.data()), sum.size_bytes())};
}

SharedBytes encode_contribution(codec::CodecId codec,
                                std::span<const float> sum,
                                const consensus::MemberInput& input) {
    auto [shared, out] = SharedBytes::for_overwrite(codec::encoded_size(codec, sum.size()));
    codec::encode_into(codec, sum, out, std::ldexp(1.0f, -scale_exponent(codec, input)));
    return shared;
}

bool is_sound_average(codec::CodecId codec,
                      ByteView encoded,
                      std::size_t count,
                      const Digest& digest) {
    return security::hash_list(encoded) == digest && codec::verify(codec, encoded, count, 1.0f);
}

}  // namespace dedloc::allreduce
