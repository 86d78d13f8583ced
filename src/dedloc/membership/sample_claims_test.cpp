#include "dedloc/membership/sample_claims.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/membership/batch_progress.h"

namespace dedloc::membership {
namespace {

constexpr TimePoint claims_begin{100s};

run::BatchConfig batch_of(std::uint64_t target, std::uint64_t micro) {
    run::BatchConfig batch;
    batch.target = target;
    batch.micro = micro;
    return batch;
}

KnownPeer peer_of_speed(double samples_per_s) {
    KnownPeer peer;
    peer.samples_per_s_most = samples_per_s;
    return peer;
}

TEST(SampleClaims, of_a_step_whose_begin_nobody_saw_everything_is_believed) {
    const SampleClaims claims(batch_of(1000, 10), /*delayed=*/false);
    EXPECT_TRUE(std::isinf(claims.computed_most(peer_of_speed(5), false, claims_begin)));
}

TEST(SampleClaims, twice_what_the_speed_makes_of_the_time_and_a_few_micro_batches_are_believed) {
    SampleClaims claims(batch_of(1000, 10), /*delayed=*/false);
    claims.committed(claims_begin);
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(5), false, claims_begin + Duration(6s)),
                     100);
    // The step before is unknown.
    EXPECT_TRUE(std::isinf(claims.computed_most(peer_of_speed(5), true, claims_begin)));
    claims.committed(claims_begin + Duration(10s));
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(5), false, claims_begin + Duration(16s)),
                     100);
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(5), true, claims_begin + Duration(6s)),
                     100);
}

// The peer made 1,280 samples at once, and told what it makes on average. Its quickest micro-batch
// says that it can have made them.
TEST(SampleClaims, a_burst_of_a_busy_machine_is_believed) {
    SampleClaims claims(batch_of(20'000, 64), /*delayed=*/false);
    claims.committed(claims_begin);
    KnownPeer peer;
    peer.status.samples_per_s = 1438;
    peer.status.micro_batch_s = 0.05;
    peer.note_speed();
    consensus::MemberInput input;
    input.fresh = {0, 1280};
    const TimePoint now = claims_begin + Duration(100ms);
    EXPECT_FALSE(claims.check(peer, input, true, now));
    peer.status.micro_batch_s = 0.005;
    peer.note_speed();
    EXPECT_TRUE(claims.check(peer, input, true, now));
    input.fresh = {0, 2560 + 257};
    EXPECT_FALSE(claims.check(peer, input, true, now)) << "twice that, and four micro-batches";
    peer.status.micro_batch_s = 0.4;  // it may be slow again when it hands in
    peer.note_speed();
    input.fresh = {0, 1280};
    EXPECT_TRUE(claims.check(peer, input, true, now));
}

// Each status has the quickest micro-batch when the peer hands in, whatever the last one took.
TEST(SampleClaims, no_step_of_a_peer_that_is_kept_waiting_now_and_then_is_refused) {
    for (const int slow : {2, 3, 10, 50}) {
        for (const std::uint64_t own : {8u, 64u, 300u}) {
            BatchProgress progress(100'000, 1s, 64);
            SampleClaims claims(batch_of(100'000, 64), /*delayed=*/false);
            KnownPeer peer;
            TimePoint now = claims_begin;
            int number = 0;
            for (int step = 0; step < 60; ++step) {
                claims.committed(now);
                consensus::MemberInput input;
                for (int i = 0; i < 1 + step % 20; ++i) {
                    const double seconds = number == 0 || number % slow == 0 ? 0.7 : 0.004;
                    ++number;
                    progress.report_speed(own, seconds);
                    now = now + from_seconds(seconds);
                    input.fresh.end += own;
                }
                peer.status.samples_per_s = progress.samples_per_s();
                peer.status.micro_batch_s = progress.quickest_micro_batch_s();
                peer.note_speed();
                EXPECT_TRUE(claims.check(peer, input, true, now)) << slow << ' ' << step;
            }
        }
    }
}

// Where each peer has micro-batches of its own size, nobody knows what they can have made at once.
TEST(SampleClaims, with_micro_batches_of_their_own_peers_may_bring_two_seconds_at_once) {
    SampleClaims claims(batch_of(20'000, run::micro_auto), /*delayed=*/false);
    claims.committed(claims_begin);
    const TimePoint now = claims_begin + Duration(100ms);
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(500), false, now), 2000);
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(500), false, claims_begin + Duration(6s)),
                     6000);
}

TEST(SampleClaims, with_the_delayed_update_samples_are_a_step_older) {
    SampleClaims claims(batch_of(1000, 10), /*delayed=*/true);
    claims.committed(claims_begin);
    claims.committed(claims_begin + Duration(10s));
    EXPECT_DOUBLE_EQ(claims.computed_most(peer_of_speed(5), false, claims_begin + Duration(6s)),
                     100);
}

// A contribution to a fragment was computed since that was moved, two steps ago.
TEST(SampleClaims, of_fragments_count_from_when_they_were_moved) {
    SampleClaims claims(batch_of(1000, 10), /*delayed=*/false, /*of_strangers=*/false, 2);
    const KnownPeer peer = peer_of_speed(5);
    consensus::MemberInput input;
    input.fresh = {0, 1000};
    claims.committed(claims_begin);
    EXPECT_TRUE(claims.check(peer, input, true, claims_begin + Duration(6s)));
    claims.committed(claims_begin + Duration(10s));
    const TimePoint now = claims_begin + Duration(16s);
    EXPECT_FALSE(claims.check(peer, input, true, now));
    input.fresh = {0, 200};
    EXPECT_TRUE(claims.check(peer, input, true, now));
    input.fresh = {0, 201};
    EXPECT_FALSE(claims.check(peer, input, true, now));
    EXPECT_DOUBLE_EQ(claims.computed_most(peer, false, now), 100) << "of the open step alone";
}

TEST(SampleClaims, what_is_beyond_it_is_refused_once_its_newest_status_is_there) {
    SampleClaims claims(batch_of(1000, 10), /*delayed=*/false);
    claims.committed(claims_begin);
    consensus::MemberInput input;
    input.fresh = {0, 101};
    const KnownPeer peer = peer_of_speed(5);
    const TimePoint now = claims_begin + Duration(6s);
    const auto early = claims.check(peer, input, /*told_of_all=*/false, now);
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().kind(), ErrorKind::overloaded);
    const auto late = claims.check(peer, input, /*told_of_all=*/true, now);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind(), ErrorKind::peer_broke_protocol);
    input.fresh = {0, 100};
    EXPECT_TRUE(claims.check(peer, input, true, now));
    claims.forget();
    input.fresh = {0, 5000};
    EXPECT_TRUE(claims.check(peer, input, true, now));
}

}  // namespace
}  // namespace dedloc::membership
