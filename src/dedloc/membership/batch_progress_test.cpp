#include "dedloc/membership/batch_progress.h"

#include <gtest/gtest.h>
#include <limits>

namespace dedloc::membership {
namespace {

constexpr TimePoint told_at{100s};
constexpr double unbounded = std::numeric_limits<double>::infinity();

KnownPeer computing(std::uint64_t samples, double samples_per_s) {
    KnownPeer peer;
    peer.status.phase = Phase::computing;
    peer.status.samples = samples;
    peer.status.samples_per_s = samples_per_s;
    peer.status_at = told_at;
    return peer;
}

TEST(BatchProgress, adds_what_others_tell_and_computes_on_for_them_for_a_while) {
    BatchProgress progress(1000, 1s);
    const KnownPeer other = computing(200, 50);
    progress.refresh({{&other, true, unbounded}}, told_at);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(100, told_at), 300);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(100, told_at + Duration(1s)), 350);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(100, told_at + Duration(60s)), 375);
}

TEST(BatchProgress, believes_no_claim_beyond_what_was_possible_or_the_batch) {
    BatchProgress progress(1000, 1s);
    const KnownPeer liar = computing(900, 0);
    progress.refresh({{&liar, true, 10}}, told_at);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(0, told_at), 10);
    const KnownPeer boaster = computing(std::uint64_t{1} << 60, 0);
    progress.refresh({{&boaster, true, unbounded}}, told_at);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(0, told_at), 1000);
}

TEST(BatchProgress, counts_no_samples_of_another_step_but_the_speed_of_who_computes_them) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(50, 1);
    EXPECT_DOUBLE_EQ(progress.own_share(), 1000);
    const KnownPeer other = computing(200, 150);
    progress.refresh({{&other, false, unbounded}}, told_at);
    EXPECT_DOUBLE_EQ(progress.samples_everywhere(0, told_at), 0);
    EXPECT_DOUBLE_EQ(progress.own_share(), 250);
}

// Half of the micro-batch of 100 samples is on its way.
TEST(BatchProgress, is_full_when_it_will_be_as_near_to_the_target_as_it_can) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(100, 1);
    EXPECT_FALSE(progress.is_full(949, told_at));
    EXPECT_TRUE(progress.is_full(950, told_at));
}

// The first micro-batch of a process is slow, as libraries are loaded and memory is touched.
TEST(BatchProgress, a_slow_first_micro_batch_is_forgotten_when_the_second_is_there) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(64, 0.5);
    EXPECT_DOUBLE_EQ(progress.samples_per_s(), 128);
    progress.report_speed(64, 0.01);
    EXPECT_DOUBLE_EQ(progress.samples_per_s(), 6400);
    progress.report_speed(64, 0.03);
    EXPECT_NEAR(progress.samples_per_s(), 128 / 0.04, 20);
}

// Nine of ten micro-batches take 5 ms, and every tenth waits 400 ms for the processor.
void contend(BatchProgress& progress, int micro_batches) {
    for (int i = 0; i < micro_batches; ++i) progress.report_speed(64, i % 10 == 9 ? 0.4 : 0.005);
}

TEST(BatchProgress, tells_what_is_made_where_few_short_micro_batches_wait_for_the_processor) {
    BatchProgress progress(1000, 1s, 64);
    contend(progress, 100);
    for (int i = 0; i < 10; ++i) {
        EXPECT_NEAR(progress.samples_per_s(), 640 / 0.445, 250) << i;
        progress.report_speed(64, i == 9 ? 0.4 : 0.005);
    }
    EXPECT_DOUBLE_EQ(progress.quickest_micro_batch_s(), 0.005);
    // Half a micro-batch is on its way, however short most of them are.
    EXPECT_FALSE(progress.is_full(967, told_at));
    EXPECT_TRUE(progress.is_full(968, told_at));
}

TEST(BatchProgress, is_as_quick_as_others_see_for_its_share) {
    BatchProgress progress(10'000, 1s, 64);
    contend(progress, 100);
    const KnownPeer other = computing(0, progress.samples_per_s());
    progress.refresh({{&other, true, unbounded}}, told_at);
    EXPECT_NEAR(progress.own_share(), 5000, 1e-6);
    // Half a micro-batch of each of the two is on its way.
    EXPECT_FALSE(progress.is_full(9935, told_at));
    EXPECT_TRUE(progress.is_full(9936, told_at));
}

// Loops of one's own may cut their samples as they like.
TEST(BatchProgress, micro_batches_of_all_sizes_have_one_speed) {
    BatchProgress progress(1000, 1s, 64);
    for (int i = 0; i < 40; ++i) {
        const std::uint64_t samples = i % 2 == 0 ? 8 : 800;
        progress.report_speed(samples, static_cast<double>(samples) / 400);
        EXPECT_NEAR(progress.samples_per_s(), 400, 1e-6);
    }
    EXPECT_DOUBLE_EQ(progress.quickest_micro_batch_s(), 64.0 / 400);
}

TEST(BatchProgress, a_machine_that_becomes_slower_or_quicker_is_believed_within_a_few_windows) {
    BatchProgress progress(1000, 1s, 64);
    for (int i = 0; i < 20; ++i) progress.report_speed(64, 0.1);
    for (int i = 0; i < 12; ++i) progress.report_speed(64, 3);
    EXPECT_LT(progress.samples_per_s(), 1.5 * 64 / 3);
    for (int i = 0; i < 80; ++i) progress.report_speed(64, 0.1);
    EXPECT_GT(progress.samples_per_s(), 640 / 1.5);
}

TEST(BatchProgress, one_long_gap_does_not_make_a_peer_slow) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(100, 1);
    progress.report_speed(100, 1000);
    EXPECT_GT(progress.samples_per_s(), 89);
    EXPECT_DOUBLE_EQ(progress.micro_batch_s(), 4);
}

TEST(BatchProgress, gaps_that_come_often_are_counted) {
    BatchProgress progress(1000, 1s);
    for (int i = 0; i < 50; ++i) progress.report_speed(10, i % 5 == 4 ? 1.5 : 0.1);
    EXPECT_NEAR(progress.samples_per_s(), 50 / 1.9, 6);
}

}  // namespace
}  // namespace dedloc::membership
