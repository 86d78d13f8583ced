#include "dedloc/allreduce/part_means.h"

#include <algorithm>
#include <cmath>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::allreduce {
namespace {

std::vector<WeightSegment> weights_along(const consensus::RoundPlan& plan,
                                         std::uint32_t part,
                                         std::uint32_t member) {
    return total_weights({&plan.members[member].input}, plan.parts[part].range());
}

double mean_of(const std::vector<WeightSegment>& segments) {
    double samples = 0;
    double elements = 0;
    for (const WeightSegment& segment : segments) {
        samples += static_cast<double>(segment.weight) * static_cast<double>(segment.count);
        elements += static_cast<double>(segment.count);
    }
    return elements > 0 ? samples / elements : 0;
}

void divide(const std::vector<WeightSegment>& segments, std::size_t first, std::span<float> out) {
    std::size_t begin = 0;  // of the segment, in the part
    for (const WeightSegment& segment : segments) {
        const std::size_t end = begin + static_cast<std::size_t>(segment.count);
        const std::size_t from = std::max(begin, first);
        const std::size_t to = std::min(end, first + out.size());
        if (from < to && segment.weight > 0)
            tensor::divide(out.subspan(from - first, to - from),
                           static_cast<float>(segment.weight));
        begin = end;
    }
}

}  // namespace

float scale_of(const consensus::RoundPlan& plan, std::uint32_t part, std::uint32_t member) {
    return std::ldexp(1.0f, scale_exponent(codec_of(plan, part), plan.members[member].input));
}

double mean_weight(const consensus::RoundPlan& plan, std::uint32_t part, std::uint32_t member) {
    return mean_of(weights_along(plan, part, member));
}

double reduction_weight(const consensus::RoundPlan& plan,
                        std::uint32_t part,
                        std::uint32_t member) {
    const consensus::PlanMember& of = plan.members[member];
    return of.weightless ? 0 : mean_weight(plan, part, member) * consensus::trust_factor(of.trust);
}

PartMeans::PartMeans(const consensus::RoundPlan& plan,
                     std::uint32_t part,
                     const std::vector<PartInput>& inputs)
    : plan_(plan), part_(part), inputs_(inputs) {
    for (const PartInput& input : inputs)
        segments_.push_back(weights_along(plan, part, input.member));
}

void PartMeans::read(std::size_t member, std::size_t first, std::span<float> out) const {
    std::ranges::fill(out, 0.0f);
    const PartInput& input = inputs_[member];
    const codec::CodecId codec = codec_of(plan_, part_);
    const ByteView encoded = codec::window(codec, *input.encoded, first, out.size());
    codec::accumulate_verified(codec, encoded, scale_of(plan_, part_, input.member), out);
    divide(segments_[member], first, out);
}

std::vector<double> PartMeans::weights() const {
    std::vector<double> weights;
    for (const PartInput& input : inputs_)
        weights.push_back(reduction_weight(plan_, part_, input.member));
    return weights;
}

std::vector<PartInput> sound_inputs(const consensus::RoundPlan& plan,
                                    std::uint32_t part,
                                    const std::vector<PartInput>& inputs,
                                    std::vector<RefusedInput>& refused) {
    std::vector<PartInput> sound;
    for (const PartInput& input : inputs) {
        const float magnitude =
            scale_of(plan, part, input.member) * static_cast<float>(consensus::members_max);
        const auto count = static_cast<std::size_t>(plan.parts[part].count);
        if (!codec::verify(codec_of(plan, part), *input.encoded, count, magnitude))
            refused.push_back({input.member,
                               "its contribution has numbers that are not finite, or far beyond "
                               "all use"});
        else if (mean_weight(plan, part, input.member) > 0)
            sound.push_back(input);
    }
    return sound;
}

}  // namespace dedloc::allreduce
