#include "dedloc/allreduce/centered_clip_reducer.h"

#include <span>

#include "dedloc/allreduce/part_means.h"
#include "dedloc/base/check.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/medians.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {

double tau_of(const consensus::RoundPlan& plan, std::uint32_t part, const CenteredClipRule& rule) {
    const double whole = plan.tau > 0 ? plan.tau : rule.tau;
    return robust::part_tau(whole, plan.parts[part].count, plan.parts.back().range().end());
}

ReducedPart CenteredClipReducer::reduce(const consensus::RoundPlan& plan,
                                        std::uint32_t part,
                                        const std::vector<PartInput>& inputs) const {
    ReducedPart result;
    std::vector<PartInput> sound = sound_inputs(plan, part, inputs, result.refused);
    result.included = consensus::no_members(plan);
    for (const PartInput& input : sound) base::set_bit(result.included, input.member);
    // Newcomers' inputs are used up, and checked, but are no part of the average.
    std::erase_if(
        sound, [&plan](const PartInput& input) { return plan.members[input.member].weightless; });
    const consensus::PlanPart& where = plan.parts[part];
    std::vector<float> average(static_cast<std::size_t>(where.count), 0.0f);
    if (!sound.empty()) {
        const PartMeans means(plan, part, sound);
        const std::vector<double> weights =
            robust::capped_weights(means.weights(), rule_.weight_cap);
        const robust::ClipOptions options{
            tau_of(plan, part, rule_), rule_.iterations_max, rule_.eps};
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

ReducedPart CenteredClipReducer::sum(const consensus::RoundPlan&,
                                     std::uint32_t,
                                     const std::vector<PartInput>&) const {
    DEDLOC_CHECK(false);  // no plan with this reducer has a grid
    return {};
}

}  // namespace dedloc::allreduce
