#include "dedloc/allreduce/mean_reducer.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/random.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t part_offset = 1000;
constexpr std::uint64_t part_count = 10'000;  // two whole pieces and a bit

// One part whose two members bring 3 and 5 samples, the second 2 more of them on some ranges.
consensus::RoundPlan make_plan(codec::CodecId codec) {
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec);
    plan.members.resize(2);
    plan.members[0].input.fresh = {0, 3};
    plan.members[1].input.fresh = {10, 15};
    plan.members[1].input.carried = {8, 10};
    plan.members[1].input.carried_ranges = {{500, 1500}, {3000, 1}, {5050, 100}, {10'900, 500}};
    plan.parts = {{part_offset, part_count, 0}};
    return plan;
}

std::vector<float> random_sum(std::uint64_t seed) {
    Random random(seed);
    std::vector<float> sum(part_count);
    for (float& value : sum) value = static_cast<float>(random.normal());
    return sum;
}

std::vector<PartInput> make_inputs(const consensus::RoundPlan& plan) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    std::vector<PartInput> inputs;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        inputs.push_back({i, encode_contribution(codec, random_sum(i + 1), plan.members[i].input)});
    return inputs;
}

// The owner of a gathered part adds nothing (gathered_test.cpp).
std::vector<codec::CodecId> codecs_that_add() {
    std::vector<codec::CodecId> codecs = codec::all_codecs();
    std::erase_if(codecs, codec::is_sparse);
    return codecs;
}

// The same, one element after the other.
Bytes plain_average(const consensus::RoundPlan& plan, const std::vector<PartInput>& inputs) {
    const auto codec = static_cast<codec::CodecId>(plan.codec);
    std::vector<float> sum(part_count, 0.0f);
    for (const PartInput& input : inputs) {
        std::vector<float> decoded(part_count);
        EXPECT_TRUE(codec::decode(codec, *input.encoded, decoded));
        const float factor =
            std::ldexp(1.0f, scale_exponent(codec, plan.members[input.member].input));
        for (std::size_t i = 0; i < part_count; ++i) {
            const float product = decoded[i] * factor;
            sum[i] = sum[i] + product;
        }
    }
    for (std::size_t i = 0; i < part_count; ++i) {
        std::uint64_t weight = 0;
        for (const PartInput& input : inputs) {
            const consensus::MemberInput& brought = plan.members[input.member].input;
            weight += brought.fresh.size();
            for (const consensus::ElementRange& range : brought.carried_ranges)
                if (part_offset + i >= range.offset && part_offset + i < range.end())
                    weight += brought.carried.size();
        }
        sum[i] = sum[i] / static_cast<float>(weight);
    }
    return codec::encode(codec, sum);
}

TEST(ReducePart, gives_the_bits_of_sum_divide_encode_one_after_the_other) {
    for (const codec::CodecId codec : codecs_that_add()) {
        const consensus::RoundPlan plan = make_plan(codec);
        const auto inputs = make_inputs(plan);
        for (const double norm_max : {0.0, 1e6}) {
            const ReducedPart reduced = reduce_part(plan, 0, inputs, norm_max);
            const Bytes expected = plain_average(plan, inputs);
            EXPECT_EQ(to_bytes(*reduced.encoded), expected) << codec::to_string(codec);
            EXPECT_EQ(reduced.digest, security::hash_list(expected));
            EXPECT_EQ(reduced.included, Bytes{3});
            EXPECT_TRUE(is_sound_average(codec, *reduced.encoded, part_count, reduced.digest));
        }
    }
}

void expect_the_first_left_out(const consensus::RoundPlan& plan,
                               const std::vector<PartInput>& inputs,
                               const ReducedPart& reduced) {
    ASSERT_EQ(reduced.refused.size(), 1u);
    EXPECT_EQ(reduced.refused[0].member, 0u);
    EXPECT_EQ(reduced.included, Bytes{2});
    EXPECT_EQ(to_bytes(*reduced.encoded), plain_average(plan, {inputs[1]}));
}

TEST(ReducePart, leaves_out_who_brings_a_number_that_is_not_finite_wherever_it_lies) {
    using Limits = std::numeric_limits<float>;
    for (const codec::CodecId codec : codecs_that_add())
        for (const float odd : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
            SCOPED_TRACE(codec::to_string(codec));
            const consensus::RoundPlan plan = make_plan(codec);
            auto inputs = make_inputs(plan);
            std::vector<float> bad = random_sum(1);
            bad[part_count - 1] = odd;
            inputs[0].encoded = encode_contribution(codec, bad, plan.members[0].input);
            expect_the_first_left_out(plan, inputs, reduce_part(plan, 0, inputs));
        }
}

TEST(ReducePart, leaves_out_who_is_too_long_over_the_whole_part_and_nobody_else) {
    for (const codec::CodecId codec : codecs_that_add()) {
        SCOPED_TRACE(codec::to_string(codec));
        const consensus::RoundPlan plan = make_plan(codec);
        const auto inputs = make_inputs(plan);
        // About 100 over 10,000 normal numbers: a mean of 33 a sample for member 0, 14 for
        // member 1.
        expect_the_first_left_out(plan, inputs, reduce_part(plan, 0, inputs, 20));
        EXPECT_TRUE(reduce_part(plan, 0, inputs, 50).refused.empty());
    }
}

// Else the average would be one that all refuse, and its owner the one that is blamed.
TEST(ReducePart, with_any_norm_allowed_leaves_out_who_brings_what_no_average_may_have) {
    for (const codec::CodecId codec : {codec::CodecId::fp32, codec::CodecId::bf16}) {
        const consensus::RoundPlan plan = make_plan(codec);
        auto inputs = make_inputs(plan);
        std::vector<float> huge = random_sum(1);
        huge[part_count / 2] = 0x1p110f;
        inputs[0].encoded = encode_contribution(codec, huge, plan.members[0].input);
        const ReducedPart reduced = reduce_part(plan, 0, inputs, 0);
        ASSERT_EQ(reduced.refused.size(), 1u) << codec::to_string(codec);
        EXPECT_EQ(reduced.refused[0].member, 0u);
        EXPECT_EQ(to_bytes(*reduced.encoded), plain_average(plan, {inputs[1]}));
        EXPECT_TRUE(is_sound_average(codec, *reduced.encoded, part_count, reduced.digest));
    }
}

TEST(ReducePart, without_any_input_is_zero) {
    const consensus::RoundPlan plan = make_plan(codec::CodecId::fp32);
    const ReducedPart reduced = reduce_part(plan, 0, {});
    EXPECT_EQ(to_bytes(*reduced.encoded), Bytes(4 * part_count, 0));
    EXPECT_EQ(reduced.included, Bytes{0});
}

TEST(ReducePart, takes_fp32_contributions_from_where_they_lie) {
    const consensus::RoundPlan plan = make_plan(codec::CodecId::fp32);
    const auto sum = std::make_shared<const std::vector<float>>(random_sum(4));
    const SharedBytes lies = contribution_as_it_lies(codec::CodecId::fp32, *sum, sum);
    ASSERT_TRUE(lies);
    EXPECT_EQ(static_cast<const void*>(lies->data()), static_cast<const void*>(sum->data()));
    EXPECT_TRUE(std::ranges::equal(
        *lies, *encode_contribution(codec::CodecId::fp32, *sum, plan.members[1].input)));
    EXPECT_FALSE(contribution_as_it_lies(codec::CodecId::fp16, *sum, sum));
}

}  // namespace
}  // namespace dedloc::allreduce
