// Advice about few bytes, against numbers by hand.

#include "dedloc/planning/light_advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace dedloc::planning {
namespace {

PlanFile homes(std::size_t count, double megabits_up, std::string_view training) {
    const auto file = parse_plan_file(
        fmt::format("[vector]\nelements = 124000000\ncodec = \"fp16\"\n[training]\n{}\n"
                    "[peers.home]\ncount = {}\nup = \"{} Mb/s\"\ndown = \"{} Mb/s\"\n"
                    "samples_per_s = 5\n",
                    training,
                    count,
                    megabits_up,
                    10 * megabits_up),
        "homes.toml");
    EXPECT_TRUE(file) << (file ? "" : file.error().message());
    return file ? *file : PlanFile{};
}

TEST(LightAdvice, sixteen_homes_take_local_steps_and_sparse_rounds) {
    const auto advice = advise_light(homes(16, 20, "batch = 512"));
    ASSERT_TRUE(advice);
    EXPECT_EQ(advice->trainers, 16u);
    // 512 samples take 6.4 s; of 248 MB each home sends 15/16 twice, at 2.5 MB/s: 186 s.
    EXPECT_NEAR(advice->synchronous_share, 6.4 / (6.4 + 186.5), 0.001);
    // Everybody sends what it chose to all others: 15 × 124 M × 88 / 4096 bytes.
    EXPECT_NEAR(advice->round_s, 15 * 124e6 * 88 / 4096 / 2.5e6 + 0.5, 0.3);
    EXPECT_EQ(advice->local_steps, 15u);
    EXPECT_TRUE(advice->delayed);
    EXPECT_DOUBLE_EQ(advice->share, 1);
    EXPECT_NEAR(advice->share_waiting, 96.0 / (96.0 + advice->round_s), 0.001);
    EXPECT_DOUBLE_EQ(advice->batch_target(), 512 * 15);
    const std::string sentence = light_sentence(*advice);
    EXPECT_EQ(sentence.find("16 trainers: 15 local steps, sparse, delayed: 100 % of computing time "
                            "(without delayed 85 %); synchronous: 3 %"),
              0u)
        << sentence;
}

TEST(LightAdvice, nobody_computes_beside_a_round_that_is_short) {
    const auto advice = advise_light(homes(4, 100, "batch = 128"));
    ASSERT_TRUE(advice);
    EXPECT_EQ(advice->local_steps, 15u);
    EXPECT_FALSE(advice->delayed);
    EXPECT_GT(advice->share, 0.95);
    EXPECT_DOUBLE_EQ(advice->share, advice->share_waiting);
    EXPECT_LT(advice->synchronous_share, 0.2);
}

TEST(LightAdvice, the_slower_the_lines_the_more_steps) {
    const auto slow = advise_light(homes(16, 1, "batch = 512"));
    ASSERT_TRUE(slow);
    EXPECT_EQ(slow->local_steps, 125u);
    const auto fast = advise_light(homes(4, 100'000, "batch = 128"));
    ASSERT_TRUE(fast);
    EXPECT_EQ(fast->local_steps, 0u);
    EXPECT_NE(light_sentence(*fast).find("a round after every batch leaves"), std::string::npos);
}

TEST(LightAdvice, a_batch_of_local_steps_is_taken_apart) {
    const auto advice = advise_light(homes(16, 20, "batch = 15360\nlocal_steps = 30"));
    ASSERT_TRUE(advice);
    EXPECT_DOUBLE_EQ(advice->batch, 512);
    EXPECT_EQ(advice->local_steps, 15u);
}

// Sparse rounds, which are recommended instead, move the whole vector.
TEST(LightAdvice, is_the_same_for_a_run_with_fragments) {
    const auto whole = advise_light(homes(16, 20, "batch = 512"));
    const auto fragments = advise_light(homes(16, 20, "batch = 512\nfragments = 4"));
    ASSERT_TRUE(whole && fragments);
    EXPECT_EQ(whole->local_steps, fragments->local_steps);
    EXPECT_DOUBLE_EQ(whole->round_s, fragments->round_s);
}

TEST(LightAdvice, a_robust_run_hears_of_nothing_that_it_refuses) {
    const PlanFile file = homes(16, 20, "batch = 512\nrobust = true");
    const auto advice = advise_light(file);
    ASSERT_TRUE(advice);
    // A dense round of 186.5 s, and 6.4 s for a batch: 60 batches take twice as long.
    EXPECT_EQ(advice->local_steps, 60u);
    EXPECT_EQ(advice->codec, "fp16");
    EXPECT_FALSE(advice->delayed);
    EXPECT_NEAR(advice->share, 60 * 6.4 / (60 * 6.4 + 186.5), 0.001);
    EXPECT_DOUBLE_EQ(advice->share, advice->share_waiting);
    EXPECT_EQ(light_sentence(*advice),
              "16 trainers: 60 local steps, dense: 67 % of computing time; synchronous: 3 % "
              "([local], batch.target = 30720; docs/few-bytes.md). [robust] refuses sparse codecs "
              "and averaging.delayed: nobody could compute such a contribution again.");
    const auto plan = planner::make_plan(file.question);
    ASSERT_TRUE(plan);
    for (const std::string& sentence : plan->sentences)
        EXPECT_EQ(sentence.find("averaging.delayed"), std::string::npos) << sentence;
}

// The run file of such a run has `check = 0`.
TEST(LightAdvice, a_robust_run_that_is_delayed_stays_so) {
    const auto advice = advise_light(homes(16, 20, "batch = 512\nrobust = true\ndelayed = true"));
    ASSERT_TRUE(advice);
    EXPECT_TRUE(advice->delayed);
    EXPECT_EQ(advice->codec, "fp16");
    EXPECT_NE(light_sentence(*advice).find("[robust] refuses sparse codecs:"), std::string::npos);
}

TEST(PlanFile, a_robust_run_has_no_sparse_codec) {
    const auto file = parse_plan_file(
        "[vector]\nelements = 10\ncodec = \"sparse\"\n[training]\nbatch = 4\nrobust = true\n"
        "[peers.home]\nup = \"8 Mb/s\"\ndown = \"none\"\nsamples_per_s = 1\n",
        "n.toml");
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().message().find("n.toml:6:10: 'robust' and the codec \"sparse\""),
              std::string::npos)
        << file.error().message();
}

TEST(LightAdvice, there_is_none_without_a_batch) {
    PlanFile file = homes(2, 20, "batch = 10");
    file.question.batch_samples = 0;
    EXPECT_FALSE(advise_light(file));
}

TEST(PlanFile, averages_in_a_sparse_codec_cost_the_contributions_of_all_others) {
    const auto file = parse_plan_file(
        "[vector]\nelements = 4096000\ncodec = \"sparse\"\n[peers.home]\ncount = 5\n"
        "up = \"8 Mb/s\"\ndown = \"none\"\n",
        "n.toml");
    ASSERT_TRUE(file);
    for (const planner::PlanPeer& peer : file->question.peers)
        EXPECT_DOUBLE_EQ(peer.rates.average_cost, 4);
}

TEST(PlanFile, of_more_peers_than_are_gathered_owners_add) {
    const auto file = [](const char* more) {
        return parse_plan_file(std::string("[vector]\nelements = 4096000\ncodec = \"sparse\"\n") +
                                   more +
                                   "[peers.home]\ncount = 20\nup = \"8 Mb/s\"\ndown = \"none\"\n"
                                   "[peers.helper]\nup = \"none\"\ndown = \"none\"\n"
                                   "role = \"aggregator\"\n",
                               "n.toml");
    };
    const auto added = file("");
    ASSERT_TRUE(added);
    for (const planner::PlanPeer& peer : added->question.peers) {
        EXPECT_DOUBLE_EQ(peer.rates.average_cost, 456.0 / 88);
        EXPECT_EQ(peer.rates.owns_allowed, peer.rates.contributes);
    }
    const auto gathered = file("gather_max = 20\n");
    ASSERT_TRUE(gathered);
    for (const planner::PlanPeer& peer : gathered->question.peers) {
        EXPECT_DOUBLE_EQ(peer.rates.average_cost, 19);
        EXPECT_TRUE(peer.rates.owns_allowed);
    }
}

// Bytes of a round do not grow with the peers any more.
TEST(LightAdvice, rounds_of_many_homes_take_no_longer_than_of_a_few_more_than_are_gathered) {
    const auto some = advise_light(homes(18, 20, "batch = 512"));
    const auto many = advise_light(homes(60, 20, "batch = 2048"));
    ASSERT_TRUE(some && many);
    EXPECT_NEAR(many->round_s, some->round_s, 0.1 * some->round_s);
    EXPECT_LT(many->round_s, advise_light(homes(16, 20, "batch = 512"))->round_s);
}

TEST(PlanFile, averages_of_low_rank_cost_as_many_and_their_own_bytes) {
    const auto file = parse_plan_file(
        "[vector]\nelements = 4096000\ncodec = \"low_rank\"\n[peers.home]\ncount = 5\n"
        "up = \"8 Mb/s\"\ndown = \"none\"\n",
        "n.toml");
    ASSERT_TRUE(file);
    EXPECT_DOUBLE_EQ(file->question.element_bytes, 528.0 / 16384);
    for (const planner::PlanPeer& peer : file->question.peers)
        EXPECT_DOUBLE_EQ(peer.rates.average_cost, 4);
}

}  // namespace
}  // namespace dedloc::planning
