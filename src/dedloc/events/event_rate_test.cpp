#include "dedloc/events/event_rate.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::events {
namespace {

constexpr TimePoint log_begins{1000s};

Event differs(std::uint64_t number) {
    return {.peer = security::toy_peer_id(number), .what = events::StateDiffers{}};
}

TEST(EventRate, one_peer_fills_no_log_and_leaves_room_for_the_others) {
    EventRate rate;
    std::size_t recorded = 0;
    const Event one = differs(1);
    // 1,800 a second for eight minutes.
    for (int i = 0; i < 1800 * 480; ++i)
        if (rate.may_record(one, log_begins + 1s * i / 1800)) ++recorded;
    EXPECT_GE(recorded, 16u);
    EXPECT_LE(recorded, 16u + 9u);
    EXPECT_TRUE(rate.may_record(differs(2), log_begins + 480s));
}

TEST(EventRate, peers_without_end_have_one_budget_together) {
    EventRate rate;
    std::size_t recorded = 0;
    for (int i = 0; i < 6'000; ++i)
        if (rate.may_record(differs(static_cast<std::uint64_t>(i)), log_begins + 100ms * i))
            ++recorded;
    EXPECT_LE(recorded, peers_told_of_max + 600 / 5 + 1);
}

TEST(EventRate, tells_how_many_of_which_kind_were_left_out_but_not_all_the_time) {
    EventRate rate;
    for (int i = 0; i < 20; ++i) (void)rate.may_record(differs(1), log_begins);
    const auto told = rate.to_tell(log_begins);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].of, "state_differs");
    EXPECT_EQ(told[0].count, 4u);
    (void)rate.may_record(differs(1), log_begins);
    EXPECT_TRUE(rate.to_tell(log_begins + 10s).empty());
    EXPECT_EQ(rate.to_tell(log_begins + 60s).size(), 1u);
}

TEST(EventRate, our_own_steps_are_all_recorded) {
    EventRate rate;
    for (int i = 0; i < 10'000; ++i)
        ASSERT_TRUE(rate.may_record({.what = events::StepMade{}}, log_begins));
}

}  // namespace
}  // namespace dedloc::events
