#include "dedloc/averaging/reduce.h"

#include <cmath>

#include "dedloc/security/hash.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::averaging {
namespace {

// 2^k as an exact float; k within what scale_exponent returns.
float power_of_two(int exponent) { return std::ldexp(1.0f, exponent); }

void divide_by_weights(std::span<float> values, const std::vector<WeightSegment>& segments) {
    std::size_t position = 0;
    for (const WeightSegment& segment : segments) {
        const auto count = static_cast<std::size_t>(segment.count);
        const std::span<float> stretch = values.subspan(position, count);
        const auto weight = static_cast<float>(segment.weight);
        if (segment.weight == 0)
            std::fill(stretch.begin(), stretch.end(), 0.0f);
        else
            for (float& value : stretch) value /= weight;
        position += count;
    }
}

}  // namespace

Bytes encode_contribution(codec::CodecId codec, std::span<const float> sum, int exponent) {
    if (exponent == 0) return codec::encode(codec, sum);
    std::vector<float> scaled(sum.begin(), sum.end());
    tensor::scale(scaled, power_of_two(-exponent));
    return codec::encode(codec, scaled);
}

ReducedPart reduce_part(const Plan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    const auto count = static_cast<std::size_t>(plan.parts[part].count);
    std::vector<float> sum(count, 0.0f);
    std::vector<float> decoded(count);
    ReducedPart result;
    result.included.assign((plan.members.size() + 7) / 8, 0);
    std::vector<const MemberInput*> included;
    for (const PartInput& input : inputs) {
        if (!codec::decode(codec, *input.encoded, decoded) || !tensor::all_finite(decoded)) {
            result.refused.push_back(input.member);
            continue;
        }
        const MemberInput& weights = plan.members[input.member].input;
        tensor::add_weighted(sum, decoded, power_of_two(scale_exponent(weights)));
        included.push_back(&weights);
        result.included[input.member / 8] |= static_cast<std::uint8_t>(1u << (input.member % 8));
    }
    divide_by_weights(sum, total_weights(included, plan.parts[part].range()));
    result.encoded = std::make_shared<const Bytes>(codec::encode(codec, sum));
    result.digest = security::sha256(*result.encoded);
    return result;
}

}  // namespace dedloc::averaging
