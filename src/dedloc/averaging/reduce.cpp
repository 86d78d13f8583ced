#include "dedloc/averaging/reduce.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Numbers of one part, while it is worked on: at most part_elements_max, kept by each worker.
std::span<float> scratch(std::size_t count) {
    thread_local std::vector<float> memory;
    if (memory.size() < count) memory.resize(count);
    return std::span(memory).first(count);
}

SharedBytes encode_once(codec::CodecId codec, std::span<const float> values, float factor) {
    auto [shared, out] = SharedBytes::for_overwrite(codec::encoded_size(codec, values.size()));
    codec::encode_into(codec, values, out, factor);
    return shared;
}

float factor_of(const Plan& plan, const PartInput& input) {
    return power_of_two(scale_exponent(plan.members[input.member].input));
}

// Sums in member order. False: a number is not finite, in an input or only in the sum.
bool add_all(const Plan& plan, const std::vector<PartInput>& inputs, std::span<float> sum) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const PartInput& input : inputs)
        codec::accumulate_verified(codec, *input.encoded, factor_of(plan, input), sum);
    return tensor::all_finite(sum);
}

bool is_sound_input(const Plan& plan, const PartInput& input, std::size_t count) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    return codec::verify(codec, *input.encoded, count, factor_of(plan, input)).has_value();
}

}  // namespace

SharedBytes encode_contribution(codec::CodecId codec, std::span<const float> sum, int exponent) {
    return encode_once(codec, sum, power_of_two(-exponent));
}

ReducedPart reduce_part(const Plan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    const std::span<float> sum = scratch(static_cast<std::size_t>(plan.parts[part].count));
    ReducedPart result;
    std::vector<PartInput> included = inputs;
    // Infinities and NaN do not leave a sum again: one look at the sum is enough when all is well.
    if (!add_all(plan, included, sum)) {
        std::erase_if(included, [&](const PartInput& input) {
            if (is_sound_input(plan, input, sum.size())) return false;
            result.refused.push_back(input.member);
            return true;
        });
        (void)add_all(plan, included, sum);
    }
    result.included.assign((plan.members.size() + 7) / 8, 0);
    std::vector<const MemberInput*> weights;
    for (const PartInput& input : included) {
        weights.push_back(&plan.members[input.member].input);
        result.included[input.member / 8] |= static_cast<std::uint8_t>(1u << (input.member % 8));
    }
    divide_by_weights(sum, total_weights(weights, plan.parts[part].range()));
    result.encoded = encode_once(codec, sum, 1.0f);
    result.digest = security::sha256(*result.encoded);
    return result;
}

bool is_sound_average(codec::CodecId codec,
                      ByteView encoded,
                      std::size_t count,
                      const Digest& digest) {
    return security::sha256(encoded) == digest && codec::verify(codec, encoded, count, 1.0f);
}

}  // namespace dedloc::averaging
