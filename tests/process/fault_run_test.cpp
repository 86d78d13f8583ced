// Which samples count as lost, and by which deadline a step is late.

#include "tests/process/fault_run.h"

#include <gtest/gtest.h>

namespace dedloc::lab {
namespace {

constexpr double batch = 32;

PeerAccount account(double in, double left_out, double skipped) {
    PeerAccount account;
    account.in = in;
    account.left_out = left_out;
    account.skipped = skipped;
    return account;
}

TEST(SamplesLost, a_peer_that_nothing_happened_to_may_lose_none) {
    EXPECT_FALSE(samples_lost(account(100, 0, 0), 0, 0, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 0.5, 0), 0, 0, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 0, 1), 0, 0, batch).too_many());
}

TEST(SamplesLost, a_stop_or_a_kill_excuses_one_batch_each) {
    EXPECT_FALSE(samples_lost(account(100, 32, 0), 1, 0, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 33, 0), 1, 0, batch).too_many());
    EXPECT_FALSE(samples_lost(account(100, 64, 0), 1, 1, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 65, 0), 1, 1, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 33, 0), 0, 1, batch).too_many());
}

TEST(SamplesLost, what_a_killed_peers_next_process_skips_is_not_lost_and_what_a_sleeper_skips_is) {
    EXPECT_FALSE(samples_lost(account(100, 0, 1000), 0, 1, batch).too_many());
    EXPECT_TRUE(samples_lost(account(100, 0, 1000), 5, 0, batch).too_many());
}

TEST(SamplesLost, those_that_are_in_and_those_that_are_lost_were_judged) {
    EXPECT_DOUBLE_EQ(samples_lost(account(100, 3, 4), 0, 0, batch).judged, 107);
    EXPECT_DOUBLE_EQ(samples_lost(account(100, 3, 4), 0, 1, batch).judged, 103);
}

TEST(FaultSeen, a_late_step_is_judged_by_its_own_deadline_and_that_of_the_step_before) {
    FaultSeen fault;
    fault.kind = FaultKind::rejoin;
    fault.first_step = 10;
    fault.last_step = 20;
    fault.latest_step = 12;
    fault.set_deadlines({{9, 9000}, {10, 3000}, {11, 1000}, {12, 1200}, {13, 5000}, {21, 8000}});
    EXPECT_DOUBLE_EQ(fault.deadline_ms, 5000);
    EXPECT_DOUBLE_EQ(fault.latest_deadline_ms, 1200);
    EXPECT_NEAR(fault.late_ms_max(), 1320, 1e-9);
    fault.kind = FaultKind::kill;
    EXPECT_DOUBLE_EQ(fault.late_ms_max(), 500);
}

}  // namespace
}  // namespace dedloc::lab
