#include "dedloc/allreduce/sparse_sums.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/gathered_testing.h"
#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/allreduce/plan_check.h"

namespace dedloc::allreduce {
namespace {

using codec::CodecId;

constexpr std::uint32_t summed_owner = 1;

// The member that carries owns the part.
consensus::RoundPlan summed_plan() {
    consensus::RoundPlan plan = sparse_plan(summed_owner);
    plan.sum_codec = static_cast<std::uint32_t>(CodecId::sparse_sum);
    return plan;
}

std::vector<float> brought_by(std::uint32_t member) { return sparse_sum(member + 1); }

std::vector<PartInput> summed_inputs(const consensus::RoundPlan& plan) {
    std::vector<PartInput> inputs;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
        const CodecId codec = i == summed_owner ? CodecId::fp32 : CodecId::sparse;
        inputs.push_back({i, encode_contribution(codec, brought_by(i), plan.members[i].input)});
    }
    inputs[summed_owner].members = consensus::no_members(plan);
    base::set_bit(inputs[summed_owner].members, summed_owner);
    return inputs;
}

double samples_at(std::uint64_t element) {
    const std::uint64_t at = gathered_offset + element;
    return at < 5000 || (at >= 9000 && at < 9007) ? 18 : 16;
}

// The sum that an owner makes, one element after the other.
std::vector<double> plain_sum(const consensus::RoundPlan& plan) {
    std::vector<double> sum(gathered_count, 0.0);
    for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
        std::vector<float> brought = brought_by(i);
        std::vector<float> arrived(gathered_count);
        if (i != summed_owner) {
            EXPECT_TRUE(
                codec::decode(CodecId::sparse, codec::encode(CodecId::sparse, brought), arrived));
            brought = arrived;
        }
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += static_cast<double>(brought[e]);
    }
    return sum;
}

TEST(SparseSums, what_is_sent_and_what_is_left_out_are_the_sum) {
    const consensus::RoundPlan plan = summed_plan();
    const ReducedPart reduced = reduce_part(plan, 0, summed_inputs(plan));
    EXPECT_EQ(reduced.included, Bytes{7});
    EXPECT_EQ(reduced.encoded->size(), codec::encoded_size(CodecId::sparse_sum, gathered_count));
    consensus::FinishedPart header;
    header.included = reduced.included;
    header.digest = reduced.digest;
    EXPECT_TRUE(is_average_size(plan, header, reduced.encoded->size()));
    EXPECT_TRUE(is_sound_average(plan, header, *reduced.encoded));
    EXPECT_FALSE(stretch_of(plan, header, 0)) << "nobody fills in its own";
    std::vector<float> average(gathered_count);
    ASSERT_TRUE(decode_average(plan, 0, *reduced.encoded, average));
    EXPECT_EQ(std::ranges::count_if(average, [](float each) { return each != 0; }),
              2 * 512 + (512 * 300 + 4095) / 4096);
    ASSERT_TRUE(reduced.left_out);
    const std::vector<double> sum = plain_sum(plan);
    for (std::size_t e = 0; e < sum.size(); ++e)
        ASSERT_NEAR(samples_at(e) * static_cast<double>(average[e]) +
                        static_cast<double>((*reduced.left_out)[e]),
                    sum[e],
                    1e-5)
            << e;
}

// Round after round with what is left out in the next contribution, all arrives.
TEST(SparseSums, nothing_of_an_owners_sums_is_lost) {
    const consensus::RoundPlan plan = summed_plan();
    std::vector<double> arrived(gathered_count, 0.0);
    std::vector<double> handed_in(gathered_count, 0.0);
    std::vector<float> unsent(gathered_count, 0.0f);
    for (int round = 0; round < 30; ++round) {
        auto inputs = summed_inputs(plan);
        const std::vector<double> fresh = plain_sum(plan);
        std::vector<float> own = brought_by(summed_owner);
        for (std::size_t e = 0; e < own.size(); ++e) own[e] += unsent[e];
        inputs[summed_owner].encoded =
            encode_contribution(CodecId::fp32, own, plan.members[summed_owner].input);
        const ReducedPart reduced = reduce_part(plan, 0, inputs);
        std::vector<float> average(gathered_count);
        ASSERT_TRUE(decode_average(plan, 0, *reduced.encoded, average));
        for (std::size_t e = 0; e < own.size(); ++e) {
            arrived[e] += samples_at(e) * static_cast<double>(average[e]);
            handed_in[e] += fresh[e];
        }
        unsent = *reduced.left_out;
    }
    double squares = 0;
    double waiting = 0;
    for (std::size_t e = 0; e < arrived.size(); ++e) {
        ASSERT_NEAR(arrived[e] + static_cast<double>(unsent[e]), handed_in[e], 1e-2) << e;
        squares += handed_in[e] * handed_in[e];
        waiting += static_cast<double>(unsent[e]) * static_cast<double>(unsent[e]);
    }
    EXPECT_LT(waiting, 0.05 * squares) << "of 30 rounds";
}

TEST(SparseSums, who_brings_nonsense_is_left_out_and_an_owner_has_no_norm) {
    const consensus::RoundPlan plan = summed_plan();
    auto inputs = summed_inputs(plan);
    std::vector<float> bad = brought_by(0);
    bad[4200] = std::numeric_limits<float>::quiet_NaN();
    inputs[0].encoded = encode_contribution(CodecId::sparse, bad, plan.members[0].input);
    const ReducedPart without_first = reduce_part(plan, 0, inputs);
    EXPECT_EQ(without_first.included, Bytes{6});
    ASSERT_EQ(without_first.refused.size(), 1u);
    for (const float each : *without_first.left_out) ASSERT_TRUE(std::isfinite(each));
    // An owner brings what it left out of others' contributions as well.
    const ReducedPart bounded = reduce_part(plan, 0, summed_inputs(plan), 1e-3);
    EXPECT_EQ(bounded.included, Bytes{1 << summed_owner});
    EXPECT_EQ(bounded.refused.size(), 2u);
}

TEST(SparseSums, others_parts_and_gathered_ones_leave_nothing_out) {
    consensus::RoundPlan plan = summed_plan();
    plan.parts[0].codec = static_cast<std::uint32_t>(CodecId::fp32);
    EXPECT_FALSE(sums_sparsely(plan, 0)) << "buffers beside it travel in fp32";
    EXPECT_EQ(average_codec_of(plan, 0), CodecId::fp32);
    plan = summed_plan();
    plan.sum_codec = 0;
    EXPECT_TRUE(is_gathered(plan, 0));
    EXPECT_FALSE(sums_sparsely(plan, 0));
}

class KeptRestsTest : public testing::Test {
  protected:
    // An owner leaves something out of plan `number` of this leader, or of a repair of it.
    consensus::FinishedPart put(std::uint8_t leader, std::uint8_t number, std::uint32_t repair) {
        consensus::RoundPlan plan = summed_plan();
        plan.leader = security::toy_peer_id(leader);
        consensus::FinishedPart part;
        part.plan = Digest{{number}};
        part.repair = repair;
        rests.put(plan, part, std::make_shared<const std::vector<float>>(1, 1.0f));
        return part;
    }
    KeptRests rests;
};

// Any voter may make plans: were the oldest forgotten, it could make an owner forget what it left
// out of an honest leader's.
TEST_F(KeptRestsTest, one_leaders_plans_and_repairs_push_nobody_elses_out) {
    const consensus::FinishedPart honest = put(1, 1, 0);
    consensus::FinishedPart newest;
    for (std::uint8_t number = 2; number < 40; ++number)
        for (std::uint32_t repair = 0; repair <= consensus::repairs_max; ++repair)
            newest = put(2, number, repair);
    EXPECT_NE(rests.find(honest), nullptr);
    EXPECT_NE(rests.find(newest), nullptr);
    EXPECT_EQ(rests.bytes(), left_out_rounds_max * sizeof(float));
    EXPECT_EQ(rests.ranges(), (std::vector{summed_plan().parts[0].range()}));
}

TEST_F(KeptRestsTest, the_oldest_of_as_many_leaders_is_forgotten) {
    const consensus::FinishedPart first = put(0, 0, 0);
    for (std::uint8_t leader = 1; leader < left_out_rounds_max; ++leader) put(leader, leader, 0);
    EXPECT_NE(rests.find(first), nullptr);
    const consensus::FinishedPart last = put(100, 100, 0);
    EXPECT_EQ(rests.find(first), nullptr);
    EXPECT_NE(rests.find(last), nullptr);
}

// The ledger takes what a majority has signed, and a liar may be the only voter.
TEST(LeftOutOf, averages_that_do_not_fit_their_plan_leave_nothing_out) {
    consensus::RoundPlan plan = summed_plan();
    const PeerId me = plan.members[summed_owner].peer;
    const std::uint64_t incarnation = plan.members[summed_owner].incarnation;
    plan.parts = {{0, 4096, summed_owner}, {4096, 100 * 4096, summed_owner}};
    const Digest digest{{9}};
    std::vector<consensus::FinishedPart> averages(2);
    KeptRests rests;
    for (std::uint32_t p = 0; p < 2; ++p) {
        averages[p].plan = digest;
        averages[p].part = p;
        averages[p].owner = summed_owner;
        averages[p].included = consensus::no_members(plan);
        base::set_bit(averages[p].included, summed_owner);
        rests.put(plan,
                  averages[p],
                  std::make_shared<const std::vector<float>>(plan.parts[p].count, 1.0f));
    }
    const auto found = [&] { return left_out_of(plan, digest, averages, me, incarnation, rests); };
    ASSERT_EQ(found().size(), 2u);
    for (std::size_t p = 0; p < 2; ++p) {
        EXPECT_EQ(found()[p].range, plan.parts[p].range());
        ASSERT_NE(found()[p].rest, nullptr);
        EXPECT_EQ(found()[p].rest->size(), found()[p].range.count);
        EXPECT_TRUE(found()[p].has_own);
    }
    EXPECT_TRUE(left_out_of(plan, digest, averages, me, incarnation + 1, rests).empty());
    EXPECT_TRUE(left_out_of(plan, Digest{{8}}, averages, me, incarnation, rests).empty())
        << "a rest of another plan's parts";
    std::swap(averages[0], averages[1]);
    EXPECT_TRUE(found().empty()) << "a rest shorter than its range";
    std::swap(averages[0], averages[1]);
    plan.codec = 999;
    plan.parts[1].codec = static_cast<std::uint32_t>(CodecId::sparse);
    EXPECT_EQ(found().size(), 1u);
}

class SparseSumPlans : public testing::Test {
  protected:
    SparseSumPlans() {
        options.codec = CodecId::sparse;
        options.gather_max = 2;
        options.vector_count = plan.parts[0].range().end();
        for (std::uint32_t i = 0; i < 3; ++i) plan.members[i].peer = security::toy_peer_id(i);
        std::ranges::sort(plan.members, {}, &consensus::PlanMember::peer);
        plan.leader = plan.members[0].peer;
        plan.parts = {{0, options.vector_count, 1}};
        plan.standby = {0, 2};
        plan.reduce_ms = plan.round_ms = 1000;
    }
    TransferOptions options;
    consensus::RoundPlan plan = summed_plan();
};

TEST_F(SparseSumPlans, have_as_many_contributors_as_the_run_says_and_its_codec) {
    EXPECT_TRUE(check_plan(plan, options));
    plan.sum_codec = static_cast<std::uint32_t>(CodecId::fp16);
    EXPECT_FALSE(check_plan(plan, options));
    plan.sum_codec = static_cast<std::uint32_t>(CodecId::sparse_sum);
    options.gather_max = 3;
    EXPECT_FALSE(check_plan(plan, options));
    plan.sum_codec = 0;
    EXPECT_TRUE(check_plan(plan, options));
}

TEST_F(SparseSumPlans, have_owners_that_bring_something) {
    plan.members.emplace_back().peer = security::toy_peer_id(77);
    std::ranges::sort(plan.members, {}, &consensus::PlanMember::peer);
    const std::uint32_t idle = place_of(plan, security::toy_peer_id(77));
    const std::uint32_t other = (idle + 1) % 4;
    plan.parts[0].owner = other;
    plan.standby = {other};
    EXPECT_TRUE(check_plan(plan, options));
    plan.standby = {idle};
    EXPECT_FALSE(check_plan(plan, options));
    plan.standby = {};
    plan.parts[0].owner = idle;
    EXPECT_FALSE(check_plan(plan, options));
    plan.sum_codec = 0;
    EXPECT_TRUE(check_plan(plan, options)) << "where it gathers";
}

TEST_F(SparseSumPlans, are_committed_with_an_average_for_each_part) {
    const Digest digest{{9}};
    consensus::FinishedPart average;
    average.plan = digest;
    average.owner = 1;
    average.included = consensus::no_members(plan);
    std::vector<consensus::FinishedPart> averages{average};
    const auto fits = [&] { return fits_commit(plan, digest, averages, options); };
    EXPECT_TRUE(fits());
    EXPECT_FALSE(fits_commit(plan, Digest{{8}}, averages, options));
    averages[0].part = 1;
    EXPECT_FALSE(fits());
    averages[0].part = 0;
    averages[0].included.push_back(0);
    EXPECT_FALSE(fits());
    averages[0].included.pop_back();
    averages.push_back(average);
    EXPECT_FALSE(fits());
    averages.pop_back();
    plan.parts[0].count += 4096;
    EXPECT_FALSE(fits()) << "more than the vector";
    plan.parts[0].count -= 4096;
    EXPECT_TRUE(fits());
    plan.codec = 999;
    EXPECT_FALSE(fits());
}

}  // namespace
}  // namespace dedloc::allreduce
