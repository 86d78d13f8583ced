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

// The first micro-batch of a process is slow, as libraries are loaded and memory is touched. Others
// refuse samples that a peer's own speed cannot make (SampleClaims).
TEST(BatchProgress, speed_follows_within_ten_micro_batches_after_a_slow_first_one) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(64, 0.3);
    for (int i = 0; i < 10; ++i) progress.report_speed(64, 0.01);
    EXPECT_GT(progress.samples_per_s(), 6400 / 2);
}

TEST(BatchProgress, one_long_gap_does_not_make_a_peer_slow) {
    BatchProgress progress(1000, 1s);
    progress.report_speed(100, 1);
    progress.report_speed(100, 1000);
    EXPECT_GT(progress.samples_per_s(), 89);
    EXPECT_DOUBLE_EQ(progress.micro_batch_s(), 4);
}

}  // namespace
}  // namespace dedloc::membership
