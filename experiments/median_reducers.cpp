#include "experiments/median_reducers.h"

#include "dedloc/allreduce/part_means.h"
#include "dedloc/robust/medians.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::lab {
namespace {

constexpr std::uint32_t geometric_iterations_max = 100;
constexpr double geometric_eps = 1e-6;

}  // namespace

allreduce::ReducedPart MedianReducer::reduce(
    const consensus::RoundPlan& plan,
    std::uint32_t part,
    const std::vector<allreduce::PartInput>& inputs) const {
    allreduce::ReducedPart result;
    const auto sound = allreduce::sound_inputs(plan, part, inputs, result.refused);
    result.included = consensus::no_members(plan);
    for (const allreduce::PartInput& input : sound) base::set_bit(result.included, input.member);
    std::vector<float> average(static_cast<std::size_t>(plan.parts[part].count), 0.0f);
    if (!sound.empty()) {
        const allreduce::PartMeans means(plan, part, sound);
        const std::vector<double> weights = means.weights();
        median(means, weights, average);
    }
    const codec::CodecId codec = allreduce::codec_of(plan, part);
    auto [shared, out] = SharedBytes::for_overwrite(codec::encoded_size(codec, average.size()));
    codec::encode_into(codec, average, out);
    result.encoded = std::move(shared);
    result.digest = security::hash_list(*result.encoded);
    return result;
}

void CoordinateMedianReducer::median(const robust::Inputs& means,
                                     std::span<const double> weights,
                                     std::span<float> out) const {
    robust::coordinate_median(means, weights, out);
}

void GeometricMedianReducer::median(const robust::Inputs& means,
                                    std::span<const double> weights,
                                    std::span<float> out) const {
    (void)robust::geometric_median(means, weights, geometric_iterations_max, geometric_eps, out);
}

}  // namespace dedloc::lab
