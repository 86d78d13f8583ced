#include "dedloc/peer/quiet_failures.h"

#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

TEST(QuietFailures, tells_what_people_have_to_mend_and_nothing_else) {
    QuietFailures failures;
    const auto told = [&](events::Any what, double now) {
        return failures.observe({.text = "a sentence", .what = std::move(what)}, now);
    };
    EXPECT_FALSE(told(events::CheckpointSaved{}, 0));
    EXPECT_FALSE(told(events::PeerLost{}, 0));
    EXPECT_EQ(told(events::CheckpointFailed{}, 0), "a sentence");
    EXPECT_EQ(told(events::VotesFailed{}, 0), "a sentence") << "another kind";
}

TEST(QuietFailures, tells_one_kind_once_a_minute_and_counts_the_others) {
    QuietFailures failures;
    const auto told = [&](double now) {
        return failures.observe({.text = "the disk is full", .what = events::CheckpointFailed{}},
                                now);
    };
    EXPECT_TRUE(told(1000));
    for (int i = 1; i <= 10; ++i) EXPECT_FALSE(told(1000 + 5 * i));
    EXPECT_EQ(told(1060), "the disk is full (10 more since the last time)");
    EXPECT_FALSE(told(1061));
    EXPECT_EQ(told(2000), "the disk is full (1 more since the last time)");
    EXPECT_EQ(told(3000), "the disk is full");
}

}  // namespace
}  // namespace dedloc::peer
