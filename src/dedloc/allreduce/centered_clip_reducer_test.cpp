#include "dedloc/allreduce/centered_clip_reducer.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/base/random.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t clip_elements = 9000;  // two whole pieces and a bit
constexpr std::uint64_t samples_of_each = 8;

consensus::RoundPlan sixteen_members(codec::CodecId codec) {
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec);
    plan.reducer = centered_clip_number;
    plan.members.resize(16);
    for (consensus::PlanMember& member : plan.members) member.input.fresh = {0, samples_of_each};
    plan.parts = {{0, clip_elements, 0}};
    return plan;
}

// Sums over the samples: each member's mean is near 0.01, but for liars, whose is -10.
std::vector<float> sums_of(std::uint32_t member, std::uint32_t liars) {
    Random random(member + 1);
    std::vector<float> sums(clip_elements);
    for (float& each : sums)
        each = static_cast<float>((member < liars ? -1000.0 : 1.0) * samples_of_each *
                                  (0.01 + 0.001 * random.normal()));
    return sums;
}

std::vector<PartInput> contributions(const consensus::RoundPlan& plan, std::uint32_t liars) {
    std::vector<PartInput> inputs;
    for (std::uint32_t m = 0; m < plan.members.size(); ++m)
        inputs.push_back({m,
                          encode_contribution(static_cast<codec::CodecId>(plan.codec),
                                              sums_of(m, liars),
                                              plan.members[m].input)});
    return inputs;
}

std::vector<float> decoded(const consensus::RoundPlan& plan, const ReducedPart& part) {
    std::vector<float> average(clip_elements);
    EXPECT_TRUE(codec::decode(static_cast<codec::CodecId>(plan.codec), *part.encoded, average));
    return average;
}

double mean_of(const std::vector<float>& values) {
    double sum = 0;
    for (const float each : values) sum += static_cast<double>(each);
    return sum / static_cast<double>(values.size());
}

TEST(CenteredClipReducer, IsHardlyMovedBySevenOfSixteenThatFlipTheSignAThousandfold) {
    for (const codec::CodecId codec : {codec::CodecId::fp32, codec::CodecId::fp16}) {
        const consensus::RoundPlan plan = sixteen_members(codec);
        const auto inputs = contributions(plan, 7);
        const ReducedPart clipped = CenteredClipReducer({.tau = 0.1}).reduce(plan, 0, inputs);
        EXPECT_NEAR(mean_of(decoded(plan, clipped)), 0.01, 0.003);
        EXPECT_LT(mean_of(decoded(plan, reduce_part(plan, 0, inputs))), -1.0);
        EXPECT_EQ(clipped.included, (Bytes{0xff, 0xff}));
        EXPECT_TRUE(is_sound_average(codec, *clipped.encoded, clip_elements, clipped.digest));
    }
}

TEST(CenteredClipReducer, WithAWideTauItIsTheMean) {
    const consensus::RoundPlan plan = sixteen_members(codec::CodecId::fp32);
    const auto inputs = contributions(plan, 0);
    const auto clipped = decoded(plan, CenteredClipReducer({.tau = 1e6}).reduce(plan, 0, inputs));
    const auto mean = decoded(plan, reduce_part(plan, 0, inputs));
    for (std::size_t i = 0; i < clipped.size(); i += 97)
        EXPECT_NEAR(static_cast<double>(clipped[i]), static_cast<double>(mean[i]), 1e-7);
}

TEST(CenteredClipReducer, ClaimedSamplesBuyNoMoreThanTwiceTheMedianWeight) {
    consensus::RoundPlan plan = sixteen_members(codec::CodecId::fp32);
    plan.members[0].input.fresh = {0, 1'000'000};
    auto inputs = contributions(plan, 0);
    std::vector<float> sums(clip_elements, 5.0f * 1'000'000);
    inputs[0].encoded = encode_contribution(codec::CodecId::fp32, sums, plan.members[0].input);
    const auto average = decoded(plan, CenteredClipReducer({.tau = 1e6}).reduce(plan, 0, inputs));
    EXPECT_NEAR(mean_of(average), (2 * 5.0 + 15 * 0.01) / 17, 1e-3);
}

TEST(CenteredClipReducer, RefusesNumbersThatAreNotFinite) {
    const consensus::RoundPlan plan = sixteen_members(codec::CodecId::fp32);
    auto inputs = contributions(plan, 0);
    std::vector<float> bad = sums_of(3, 0);
    bad[8999] = std::numeric_limits<float>::quiet_NaN();
    inputs[3].encoded = encode_contribution(codec::CodecId::fp32, bad, plan.members[3].input);
    const ReducedPart reduced = CenteredClipReducer({.tau = 4}).reduce(plan, 0, inputs);
    ASSERT_EQ(reduced.refused.size(), 1u);
    EXPECT_EQ(reduced.refused[0].member, 3u);
    EXPECT_FALSE(base::has_bit(reduced.included, 3));
    EXPECT_NEAR(mean_of(decoded(plan, reduced)), 0.01, 1e-3);
}

TEST(CenteredClipReducer, TakesCarriedSamplesIntoTheirStretchOfTheMean) {
    consensus::RoundPlan plan = sixteen_members(codec::CodecId::fp32);
    plan.members.resize(1);
    plan.members[0].input.fresh = {8, 16};
    plan.members[0].input.carried = {0, 8};
    plan.members[0].input.carried_ranges = {{4000, 200}};
    std::vector<float> sums(clip_elements, 8.0f);
    for (std::size_t i = 4000; i < 4200; ++i) sums[i] = 32.0f;
    const std::vector<PartInput> inputs = {
        {0, encode_contribution(codec::CodecId::fp32, sums, plan.members[0].input)}};
    const auto average = decoded(plan, CenteredClipReducer({.tau = 4}).reduce(plan, 0, inputs));
    EXPECT_EQ(average[3999], 1.0f);
    EXPECT_EQ(average[4000], 2.0f);
    EXPECT_EQ(average[4199], 2.0f);
    EXPECT_EQ(average[4200], 1.0f);
}

TEST(CenteredClipReducer, GivesZeroOfNothingAndTheMedianOfBuffers) {
    consensus::RoundPlan plan = sixteen_members(codec::CodecId::fp32);
    EXPECT_EQ(mean_of(decoded(plan, CenteredClipReducer({.tau = 4}).reduce(plan, 0, {}))), 0.0);
    plan.bounded_count = 1000;
    plan.parts = {{0, 1000, 0}, {1000, clip_elements, 0}};
    const auto average =
        decoded(plan, CenteredClipReducer({.tau = 1e9}).reduce(plan, 1, contributions(plan, 7)));
    EXPECT_NEAR(mean_of(average), 0.01, 0.003);
}

}  // namespace
}  // namespace dedloc::allreduce
