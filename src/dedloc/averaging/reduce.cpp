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

double samples_of(const Plan& plan, const PartInput& input) {
    return static_cast<double>(plan.members[input.member].input.weight_max());
}

// Sums in member order.
void add_all(const Plan& plan, const std::vector<PartInput>& inputs, std::span<float> sum) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const PartInput& input : inputs)
        codec::accumulate_verified(codec, *input.encoded, factor_of(plan, input), sum);
}

// Infinities and NaN do not leave a sum again, and what is too long makes the sum long, unless the
// others make it short again.
bool shows_nothing_wrong(const Plan& plan,
                         const std::vector<PartInput>& inputs,
                         std::span<const float> sum,
                         double norm_max) {
    if (norm_max <= 0 || inputs.empty()) return tensor::all_finite(sum);
    double samples = samples_of(plan, inputs.front());
    for (const PartInput& input : inputs) samples = std::min(samples, samples_of(plan, input));
    const double length = norm_max * samples / 2;
    return tensor::sum_of_squares(sum) <= length * length;  // false if one is not finite
}

// Why this one is refused; nullptr: it is not. `alone` is overwritten.
const char* refusal(const Plan& plan,
                    const PartInput& input,
                    std::span<float> alone,
                    double norm_max) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    if (!codec::verify(codec, *input.encoded, alone.size(), factor_of(plan, input)))
        return "its contribution has numbers that are not finite";
    if (norm_max <= 0) return nullptr;
    add_all(plan, {input}, alone);
    const double length = norm_max * samples_of(plan, input);
    return tensor::sum_of_squares(alone) > length * length
               ? "the norm of its contribution is beyond the run's averaging.norm_max"
               : nullptr;
}

}  // namespace

SharedBytes encode_contribution(codec::CodecId codec, std::span<const float> sum, int exponent) {
    return encode_once(codec, sum, power_of_two(-exponent));
}

ReducedPart reduce_part(const Plan& plan,
                        std::uint32_t part,
                        const std::vector<PartInput>& inputs,
                        double norm_max) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    const std::span<float> sum = scratch(static_cast<std::size_t>(plan.parts[part].count));
    ReducedPart result;
    std::vector<PartInput> included = inputs;
    add_all(plan, included, sum);
    if (!shows_nothing_wrong(plan, included, sum, norm_max)) {
        std::erase_if(included, [&](const PartInput& input) {
            const char* why = refusal(plan, input, sum, norm_max);
            if (why != nullptr) result.refused.push_back({input.member, why});
            return why != nullptr;
        });
        add_all(plan, included, sum);
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
