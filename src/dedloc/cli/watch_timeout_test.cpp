#include "dedloc/cli/watch_timeout.h"

#include <gtest/gtest.h>

namespace dedloc::cli {
namespace {

using End = WatchTimeout::End;

// Looks four times a second, until `seconds` have passed or there is an end.
End look_for(WatchTimeout& timeout, double& now, double seconds, bool answered, bool at_end) {
    End end = End::none;
    for (const double until = now + seconds; now < until && end == End::none;)
        end = timeout.observe(now += 0.25, answered, at_end);
    return end;
}

TEST(WatchTimeout, a_run_of_which_nobody_answers_is_out_of_reach) {
    double now = 0;
    WatchTimeout timeout(now);
    EXPECT_EQ(look_for(timeout, now, 100, true, false), End::none);
    EXPECT_EQ(look_for(timeout, now, watch_nobody_s, false, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 1, false, false), End::out_of_reach);
}

TEST(WatchTimeout, a_night_of_sleep_is_not_the_peers_silence_and_connections_get_time) {
    double now = 0;
    WatchTimeout timeout(now);
    EXPECT_EQ(look_for(timeout, now, 100, true, false), End::none);
    now += 8 * 3600;
    EXPECT_EQ(timeout.observe(now, false, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 50, false, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 100, true, false), End::none);
    now += 3;
    // Peers known from before the sleep shorten nothing.
    EXPECT_EQ(look_for(timeout, now, 5, true, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 50, false, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 10, false, false), End::out_of_reach);
}

TEST(WatchTimeout, a_run_is_over_soon_after_those_at_its_end_have_gone) {
    double now = 0;
    WatchTimeout timeout(now);
    EXPECT_EQ(look_for(timeout, now, 10, true, true), End::none);
    EXPECT_EQ(look_for(timeout, now, 1, true, false),
              End::none);  // the last, before its news came
    EXPECT_EQ(look_for(timeout, now, 3, false, false), End::over);
}

TEST(WatchTimeout, a_claim_that_the_end_is_there_is_forgotten_while_others_go_on) {
    double now = 0;
    WatchTimeout timeout(now);
    EXPECT_EQ(look_for(timeout, now, 1, true, true), End::none);
    EXPECT_EQ(look_for(timeout, now, watch_at_end_s + 1, true, false), End::none);
    EXPECT_EQ(look_for(timeout, now, 30, false, false), End::out_of_reach);
}

}  // namespace
}  // namespace dedloc::cli
