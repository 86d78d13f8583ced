#include "dedloc/averaging/round_pace.h"

#include <gtest/gtest.h>

namespace dedloc::averaging {
namespace {

TEST(RoundPace, follows_undisturbed_rounds) {
    RoundPace pace;
    EXPECT_EQ(pace.usual(), Duration(0));
    pace.learn(400ms, true);
    EXPECT_EQ(pace.usual(), Duration(400ms));
    pace.learn(800ms, true);
    EXPECT_EQ(pace.usual(), Duration(500ms));
}

TEST(RoundPace, a_round_that_waited_for_somebody_who_failed_does_not_count) {
    RoundPace pace;
    pace.learn(400ms, true);
    for (int i = 0; i < 20; ++i) {
        pace.learn(5s, false);
        pace.learn(5s, false);
        pace.learn(400ms, true);
    }
    EXPECT_EQ(pace.usual(), Duration(400ms));
}

TEST(RoundPace, rounds_that_have_become_slower_are_learnt_though_all_of_them_are_disturbed) {
    RoundPace pace;
    pace.learn(400ms, true);
    for (int i = 0; i < 10; ++i) pace.learn(5s, false);
    EXPECT_GT(pace.usual(), Duration(4s));
}

TEST(RoundPace, decisions_of_rounds_of_others_tell_nothing) {
    RoundPace pace;
    pace.learn(400ms, true);
    for (int i = 0; i < 10; ++i) pace.learn(Duration(0), true);
    EXPECT_EQ(pace.usual(), Duration(400ms));
}

}  // namespace
}  // namespace dedloc::averaging
