#include "dedloc/allreduce/gathered.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/allreduce/chunking.h"
#include "dedloc/allreduce/gathered_testing.h"
#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {
namespace {

std::vector<PartInput> sparse_inputs(const consensus::RoundPlan& plan) {
    std::vector<PartInput> inputs;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        inputs.push_back({i,
                          encode_contribution(
                              codec::CodecId::sparse, sparse_sum(i + 1), plan.members[i].input)});
    return inputs;
}

consensus::FinishedPart header_of(const ReducedPart& reduced) {
    consensus::FinishedPart header;
    header.included = reduced.included;
    header.digest = reduced.digest;
    return header;
}

TEST(Gathered, everybody_adds_what_came_in_member_order) {
    const consensus::RoundPlan plan = sparse_plan();
    const auto inputs = sparse_inputs(plan);
    const ReducedPart reduced = reduce_part(plan, 0, inputs);
    EXPECT_EQ(reduced.included, Bytes{7});
    EXPECT_TRUE(is_average_size(plan, header_of(reduced), reduced.encoded->size()));
    EXPECT_TRUE(is_sound_average(plan, header_of(reduced), *reduced.encoded));
    std::vector<float> average(gathered_count);
    ASSERT_TRUE(decode_average(plan, 0, *reduced.encoded, average));
    std::vector<float> expected(gathered_count, 0.0f);
    for (const PartInput& input : inputs)
        codec::accumulate_verified(
            codec::CodecId::sparse,
            *input.encoded,
            std::ldexp(1.0f, scale_exponent(plan.members[input.member].input)),
            expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::uint64_t at = gathered_offset + i;
        const bool carried = at < 5000 || (at >= 9000 && at < 9007);
        ASSERT_EQ(average[i], expected[i] / (carried ? 18.0f : 16.0f)) << i;
    }
}

TEST(Gathered, a_member_fills_in_its_own_contribution) {
    const consensus::RoundPlan plan = sparse_plan();
    const auto inputs = sparse_inputs(plan);
    const ReducedPart reduced = reduce_part(plan, 0, inputs);
    for (const PartInput& input : inputs) {
        const auto stretch = stretch_of(plan, header_of(reduced), input.member);
        ASSERT_TRUE(stretch);
        const SharedBytes sent = without(reduced.encoded, *stretch);
        EXPECT_EQ(sent->size() + input.encoded->size(), reduced.encoded->size());
        const SharedBytes whole = with(*sent, *stretch, *input.encoded);
        EXPECT_TRUE(std::ranges::equal(*whole, *reduced.encoded));
    }
    const ReducedPart of_two = reduce_part(plan, 0, {inputs[0], inputs[2]});
    EXPECT_FALSE(stretch_of(plan, header_of(of_two), 1));
}

TEST(Gathered, numbers_that_are_not_finite_or_too_long_are_left_out) {
    const consensus::RoundPlan plan = sparse_plan();
    auto inputs = sparse_inputs(plan);
    std::vector<float> bad = sparse_sum(1);
    bad[4200] = std::numeric_limits<float>::quiet_NaN();
    inputs[0].encoded = encode_contribution(codec::CodecId::sparse, bad, plan.members[0].input);
    const ReducedPart without_first = reduce_part(plan, 0, inputs);
    EXPECT_EQ(without_first.included, Bytes{6});
    ASSERT_EQ(without_first.refused.size(), 1u);
    std::vector<float> average(gathered_count);
    EXPECT_TRUE(decode_average(plan, 0, *without_first.encoded, average));
    EXPECT_EQ(reduce_part(plan, 0, sparse_inputs(plan), 1e-3).refused.size(), 3u);
}

TEST(Gathered, bytes_that_no_owner_makes_are_not_sound) {
    const consensus::RoundPlan plan = sparse_plan();
    const ReducedPart reduced = reduce_part(plan, 0, sparse_inputs(plan));
    const auto is_sound = [&](Bytes bytes, Bytes included) {
        consensus::FinishedPart header;
        header.included = std::move(included);
        header.digest = security::hash_list(bytes);
        return is_sound_average(plan, header, bytes);
    };
    const Bytes good(reduced.encoded->begin(), reduced.encoded->end());
    EXPECT_TRUE(is_sound(good, Bytes{7}));
    EXPECT_FALSE(is_sound(good, Bytes{3})) << "another bitmap than the header's";
    Bytes wrong = good;
    wrong[0] = 15;  // a member that the plan has not
    EXPECT_FALSE(is_sound(wrong, Bytes{15}));
    wrong = good;
    wrong.pop_back();
    EXPECT_FALSE(is_sound(wrong, Bytes{7}));
    wrong = good;
    for (std::size_t i = 1; i < 9; ++i) wrong[i] = 0xff;  // magnitudes that are not finite
    EXPECT_FALSE(is_sound(wrong, Bytes{7}));
    std::vector<float> average(gathered_count);
    EXPECT_FALSE(decode_average(plan, 0, ByteView(good).first(1), average));
    EXPECT_FALSE(decode_average(plan, 0, {}, average));
}

TEST(Gathered, without_any_input_is_zero) {
    const consensus::RoundPlan plan = sparse_plan();
    const ReducedPart reduced = reduce_part(plan, 0, {});
    EXPECT_TRUE(is_sound_average(plan, header_of(reduced), *reduced.encoded));
    std::vector<float> average(gathered_count, 1.0f);
    ASSERT_TRUE(decode_average(plan, 0, *reduced.encoded, average));
    EXPECT_EQ(average, std::vector<float>(gathered_count, 0.0f));
}

// A block of low rank is longer than the pieces that averages are worked on in.
TEST(Gathered, contributions_of_low_rank_are_added_in_member_order) {
    consensus::RoundPlan plan = sparse_plan();
    plan.codec = static_cast<std::uint32_t>(codec::CodecId::low_rank);
    const std::size_t count = 2 * codec::block_elements(codec::CodecId::low_rank) + 300;
    plan.parts = {{0, count, 0}};
    plan.members[1].input.carried = {};
    plan.members[1].input.carried_ranges = {};
    std::vector<PartInput> inputs;
    std::vector<float> expected(count, 0.0f);
    for (std::uint32_t i = 0; i < 3; ++i) {
        Random random(40 + i);
        std::vector<float> sum(count);
        for (float& value : sum) value = static_cast<float>(random.normal());
        const consensus::MemberInput& input = plan.members[i].input;
        inputs.push_back({i, encode_contribution(codec::CodecId::low_rank, sum, input)});
        codec::accumulate_verified(codec::CodecId::low_rank,
                                   *inputs.back().encoded,
                                   std::ldexp(1.0f, scale_exponent(input)),
                                   expected);
    }
    const ReducedPart reduced = reduce_part(plan, 0, inputs, /*norm_max=*/1e6);
    EXPECT_EQ(reduced.included, Bytes{7});
    EXPECT_TRUE(is_sound_average(plan, header_of(reduced), *reduced.encoded));
    std::vector<float> average(count);
    ASSERT_TRUE(decode_average(plan, 0, *reduced.encoded, average));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(average[i], expected[i] / 16.0f) << i;
    EXPECT_EQ(reduce_part(plan, 0, inputs, /*norm_max=*/1e-3).refused.size(), 3u);
}

// A chunk is encoded as its author chose it: no part begins inside of one, whatever the shares.
TEST(Gathered, parts_begin_where_chunks_do) {
    TransferOptions options;
    options.codec = codec::CodecId::sparse;
    options.part_elements_max = 8192;
    options.vector_count = 105'866;
    options.codec_ranges = {{0, 105'770, codec::CodecId::sparse},
                            {105'770, 96, codec::CodecId::fp32}};
    options.other_codecs = {codec::CodecId::fp32};
    options.bounded_count = 105'770;
    for (const std::size_t owners : {1u, 3u, 7u, 16u}) {
        consensus::RoundPlan plan = sparse_plan();
        plan.parts.clear();
        plan.bounded_count = options.bounded_count;
        std::vector<std::uint32_t> all;
        for (std::uint32_t i = 0; i < owners; ++i) all.push_back(i % 3);
        const std::uint64_t pieces = 105'866 / owners / 8192 + 1;
        cut_range(plan, 105'866, cuts_for(pieces, 0), all);
        align_to_chunks(plan, options);
        cut_by_codec(plan, options);
        std::uint64_t end = 0;
        for (const consensus::PlanPart& part : plan.parts) {
            EXPECT_EQ(part.offset, end);
            EXPECT_TRUE(part.offset >= 105'770 || part.offset % 4096 == 0) << part.offset;
            EXPECT_LE(part.count, 8192u);
            end = part.range().end();
        }
        EXPECT_EQ(end, 105'866u);
    }
}

}  // namespace
}  // namespace dedloc::allreduce
