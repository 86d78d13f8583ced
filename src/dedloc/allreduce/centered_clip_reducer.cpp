#include "dedloc/allreduce/centered_clip_reducer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "dedloc/allreduce/part_codec.h"
#include "dedloc/base/check.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/medians.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::allreduce {
namespace {

std::vector<WeightSegment> weights_along(const consensus::Plan& plan,
                                         std::uint32_t part,
                                         const PartInput& input) {
    return total_weights({&plan.members[input.member].input}, plan.parts[part].range());
}

// Samples that an element of the part has of this member, on average.
double mean_weight(const std::vector<WeightSegment>& segments) {
    double samples = 0;
    double elements = 0;
    for (const WeightSegment& segment : segments) {
        samples += static_cast<double>(segment.weight) * static_cast<double>(segment.count);
        elements += static_cast<double>(segment.count);
    }
    return elements > 0 ? samples / elements : 0;
}

float scale_of(const consensus::Plan& plan, std::uint32_t part, const PartInput& input) {
    return std::ldexp(1.0f, scale_exponent(codec_of(plan, part), plan.members[input.member].input));
}

// The members' contributions to a part, decoded on the way, as means over their samples.
class PartMeans final : public robust::Inputs {
  public:
    PartMeans(const consensus::Plan& plan, std::uint32_t part, const std::vector<PartInput>& inputs)
        : plan_(plan), part_(part), inputs_(inputs) {
        for (const PartInput& input : inputs) segments_.push_back(weights_along(plan, part, input));
    }

    std::size_t members() const override { return inputs_.size(); }
    std::size_t elements() const override {
        return static_cast<std::size_t>(plan_.parts[part_].count);
    }
    void read(std::size_t member, std::size_t first, std::span<float> out) const override {
        std::ranges::fill(out, 0.0f);
        const PartInput& input = inputs_[member];
        const codec::CodecId codec = codec_of(plan_, part_);
        const ByteView encoded = codec::window(codec, *input.encoded, first, out.size());
        codec::accumulate_verified(codec, encoded, scale_of(plan_, part_, input), out);
        divide(segments_[member], first, out);
    }
    std::vector<double> weights() const {
        std::vector<double> weights;
        for (const auto& segments : segments_) weights.push_back(mean_weight(segments));
        return weights;
    }

  private:
    static void divide(const std::vector<WeightSegment>& segments,
                       std::size_t first,
                       std::span<float> out) {
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

    const consensus::Plan& plan_;
    std::uint32_t part_;
    const std::vector<PartInput>& inputs_;
    std::vector<std::vector<WeightSegment>> segments_;
};

// Those that may be clipped: finite, and of a size that all decode.
std::vector<PartInput> sound_inputs(const consensus::Plan& plan,
                                    std::uint32_t part,
                                    const std::vector<PartInput>& inputs,
                                    std::vector<RefusedInput>& refused) {
    std::vector<PartInput> sound;
    for (const PartInput& input : inputs) {
        const float magnitude =
            scale_of(plan, part, input) * static_cast<float>(consensus::members_max);
        const auto count = static_cast<std::size_t>(plan.parts[part].count);
        if (!codec::verify(codec_of(plan, part), *input.encoded, count, magnitude))
            refused.push_back({input.member,
                               "its contribution has numbers that are not finite, or far beyond "
                               "all use"});
        else if (mean_weight(weights_along(plan, part, input)) > 0)
            sound.push_back(input);
    }
    return sound;
}

}  // namespace

ReducedPart CenteredClipReducer::reduce(const consensus::Plan& plan,
                                        std::uint32_t part,
                                        const std::vector<PartInput>& inputs) const {
    ReducedPart result;
    std::vector<PartInput> sound = sound_inputs(plan, part, inputs, result.refused);
    result.included = consensus::no_members(plan);
    for (const PartInput& input : sound) base::set_bit(result.included, input.member);
    // Those of newcomers are used up, and checked, but are no part of the average.
    std::erase_if(
        sound, [&plan](const PartInput& input) { return plan.members[input.member].weightless; });
    const consensus::PlanPart& where = plan.parts[part];
    std::vector<float> average(static_cast<std::size_t>(where.count), 0.0f);
    if (!sound.empty()) {
        const PartMeans means(plan, part, sound);
        const std::vector<double> weights =
            robust::capped_weights(means.weights(), rule_.weight_cap);
        const std::uint64_t elements = plan.parts.back().range().end();
        const robust::ClipOptions options{
            robust::part_tau(rule_.tau, where.count, elements), rule_.iterations_max, rule_.eps};
        if (plan.is_bounded(where))
            robust::centered_clip(means, weights, options, average);
        else
            robust::coordinate_median(means, weights, average);
    }
    const codec::CodecId codec = codec_of(plan, part);
    auto [shared, out] = SharedBytes::for_overwrite(codec::encoded_size(codec, average.size()));
    codec::encode_into(codec, average, out);
    result.encoded = std::move(shared);
    result.digest = security::hash_list(*result.encoded);
    return result;
}

ReducedPart CenteredClipReducer::sum(const consensus::Plan&,
                                     std::uint32_t,
                                     const std::vector<PartInput>&) const {
    DEDLOC_CHECK(false);  // no plan with this reducer has a grid
    return {};
}

}  // namespace dedloc::allreduce
