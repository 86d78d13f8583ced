#include "dedloc/allreduce/chunking.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "dedloc/allreduce/plan_check.h"
#include "dedloc/base/random.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

constexpr double a_moment = 0.1;
constexpr double long_enough = 60;

std::vector<std::uint64_t> lengths(const consensus::RoundPlan& plan) {
    std::vector<std::uint64_t> all;
    for (const consensus::PlanPart& part : plan.parts) all.push_back(part.count);
    return all;
}

TEST(Chunking, are_equal_where_a_part_takes_no_time) {
    consensus::RoundPlan plan;
    cut_range(plan, 4000, cuts_for(40, a_moment), {0});
    EXPECT_EQ(lengths(plan), std::vector<std::uint64_t>(40, 100));
}

TEST(Chunking, make_the_first_and_the_last_parts_short_where_parts_take_long) {
    consensus::RoundPlan plan;
    cut_range(plan, 1600, cuts_for(16, long_enough), {0});
    EXPECT_EQ(lengths(plan),
              (std::vector<std::uint64_t>{25,  25,  50,  50,  100, 100, 100, 100, 100, 100, 100,
                                          100, 100, 100, 100, 100, 100, 50,  50,  25,  25}));
}

TEST(Chunking, leave_few_parts_as_they_are) {
    consensus::RoundPlan plan;
    cut_range(plan, 1500, cuts_for(15, long_enough), {0});
    EXPECT_EQ(lengths(plan), std::vector<std::uint64_t>(15, 100));
}

TEST(Chunking, cover_ranges_without_gap_or_crumb_and_owners_take_turns) {
    for (const std::uint64_t range : {4801u, 6007u, 99'991u}) {
        consensus::RoundPlan plan;
        cut_range(plan, 10, cuts_for(1, a_moment), {7});
        cut_range(plan, range, cuts_for(48, long_enough), {4, 2});
        ASSERT_EQ(plan.parts.size(), 1u + 2 * 53) << range;
        std::uint64_t position = 0;
        for (std::size_t i = 0; i < plan.parts.size(); ++i) {
            EXPECT_EQ(plan.parts[i].offset, position);
            EXPECT_LE(plan.parts[i].count, range / (2 * 48) + 1);
            EXPECT_GE(plan.parts[i].count, std::min<std::uint64_t>(10, range / (2 * 48) / 4));
            EXPECT_EQ(plan.parts[i].owner, i == 0 ? 7u : i % 2 == 1 ? 4u : 2u);
            position += plan.parts[i].count;
        }
        EXPECT_EQ(position, 10 + range);
    }
}

using codec::CodecId;

// Most of it in 8 bit, as a run with adaptive codecs has it.
TransferOptions options_of(std::vector<codec::CodecRange> ranges) {
    TransferOptions options;
    options.codec = CodecId::blockwise8;
    options.other_codecs = {CodecId::fp16};
    options.vector_count = ranges.back().end();
    options.codec_ranges = std::move(ranges);
    return options;
}

// "offset+count of owner", with a star where the codec is not the plan's.
std::vector<std::string> words(const consensus::RoundPlan& plan) {
    std::vector<std::string> all;
    for (const consensus::PlanPart& part : plan.parts)
        all.push_back(fmt::format(
            "{}+{} of {}{}", part.offset, part.count, part.owner, part.codec ? " *" : ""));
    return all;
}

TEST(CodecCuts, end_parts_where_the_codec_changes) {
    const TransferOptions options = options_of({{0, 15000, CodecId::blockwise8},
                                                {15000, 5000, CodecId::fp16},
                                                {20000, 20000, CodecId::blockwise8}});
    consensus::RoundPlan plan;
    cut_range(plan, 20000, cuts_for(2, a_moment), {0});
    cut_range(plan, 20000, cuts_for(1, a_moment), {1});
    cut_by_codec(plan, options);
    EXPECT_EQ(words(plan),
              (std::vector<std::string>{
                  "0+10000 of 0", "10000+5000 of 0", "15000+5000 of 0 *", "20000+20000 of 1"}));
    EXPECT_EQ(plan.parts[2].codec, static_cast<std::uint32_t>(CodecId::fp16));
}

TEST(CodecCuts, give_crumbs_beside_a_border_to_their_neighbours) {
    const TransferOptions options = options_of({{0, 10010, CodecId::blockwise8},
                                                {10010, 9980, CodecId::fp16},
                                                {19990, 20010, CodecId::blockwise8}});
    consensus::RoundPlan plan;
    for (std::uint32_t owner = 0; owner < 4; ++owner)
        cut_range(plan, 10000, cuts_for(1, a_moment), {owner});
    cut_by_codec(plan, options);
    EXPECT_EQ(words(plan),
              (std::vector<std::string>{
                  "0+10010 of 0", "10010+9980 of 1 *", "19990+10010 of 2", "30000+10000 of 3"}));
}

TEST(CodecCuts, keep_each_part_within_what_travels_in_its_codec) {
    const TransferOptions options =
        options_of({{0, 1u << 20, CodecId::blockwise8}, {1u << 20, 1u << 20, CodecId::fp16}});
    consensus::RoundPlan plan;
    for (std::uint32_t owner = 0; owner < 2; ++owner)
        cut_range(plan, 1u << 20, cuts_for(1, a_moment), {owner});
    cut_by_codec(plan, options);
    EXPECT_EQ(words(plan),
              (std::vector<std::string>{
                  "0+1048576 of 0", "1048576+524288 of 1 *", "1572864+524288 of 1 *"}));
}

TEST(CodecCuts, leave_a_plan_of_one_codec_as_it_is) {
    consensus::RoundPlan plan;
    cut_range(plan, 4801, cuts_for(7, a_moment), {0, 1});
    const Bytes before = wire::encode(plan);
    cut_by_codec(plan, TransferOptions{});
    EXPECT_EQ(wire::encode(plan), before);
}

// Other members accept the plan for any ranges and shares.
TEST(CodecCuts, of_any_ranges_and_shares_are_sound) {
    Random random(5);
    for (int repeat = 0; repeat < 300; ++repeat) {
        std::vector<codec::CodecRange> ranges;
        for (std::uint64_t i = 0, at = 0; i < 1 + random.below(9); at = ranges.back().end(), ++i)
            ranges.push_back({at,
                              1 + random.below(50'000),
                              random.chance(0.5) ? CodecId::blockwise8 : CodecId::fp16});
        TransferOptions options = options_of(ranges);
        options.part_elements_max = 2048 + random.below(20'000);
        consensus::RoundPlan plan;
        plan.codec = static_cast<std::uint32_t>(options.codec);
        plan.round_ms = 1;
        plan.members.resize(1);
        std::uint64_t left = options.vector_count;
        for (int i = 0; i < 3; ++i) {
            const std::uint64_t share = i == 2 ? left : random.below(left + 1);
            const std::uint64_t most = options.part_elements_max;
            cut_range(plan, share, cuts_for((share + most - 1) / most, a_moment), {0});
            left -= share;
        }
        cut_by_codec(plan, options);
        const auto sound = check_plan(plan, options);
        EXPECT_TRUE(sound) << sound.error().message();
    }
}

TEST(Chunking, of_nothing_are_none) {
    consensus::RoundPlan plan;
    cut_range(plan, 0, cuts_for(0, long_enough), {0});
    EXPECT_TRUE(plan.parts.empty());
}

}  // namespace
}  // namespace dedloc::allreduce
