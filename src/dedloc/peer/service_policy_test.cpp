#include "dedloc/peer/service_policy.h"

#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

constexpr int minutes(int hour, int minute = 0) { return hour * 60 + minute; }

TEST(TrainingHours, reach_over_midnight_and_may_be_several) {
    const auto night = TrainingHours::parse("22:00-07:00,12:30-13:00");
    ASSERT_TRUE(night) << night.error().message();
    EXPECT_TRUE(night->contain(minutes(23)));
    EXPECT_TRUE(night->contain(minutes(6, 59)));
    EXPECT_FALSE(night->contain(minutes(7)));
    EXPECT_TRUE(night->contain(minutes(12, 45)));
    EXPECT_FALSE(night->contain(minutes(13)));
    EXPECT_TRUE(TrainingHours::parse("")->contain(minutes(15)));
}

TEST(TrainingHours, say_what_to_write) {
    for (const char* bad : {"22:00", "22-7", "25:00-07:00", "22:60-07:00", "07:00-07:00", "x"}) {
        const auto hours = TrainingHours::parse(bad);
        ASSERT_FALSE(hours) << bad;
        EXPECT_NE(hours.error().message().find("22:00-07:00"), std::string::npos);
    }
}

TEST(IdleWatch, counts_from_the_last_key_and_the_last_work_of_others) {
    IdleWatch watch(2);
    watch.observe(0, {.processor_s = 100, .own_processor_s = 0, .terminal_idle_s = 30});
    EXPECT_EQ(watch.idle_seconds(0), 0);
    // All of it is ours.
    watch.observe(60, {.processor_s = 220, .own_processor_s = 118, .terminal_idle_s = 90});
    EXPECT_EQ(watch.idle_seconds(60), 60);
    // Somebody builds something.
    watch.observe(120, {.processor_s = 340, .own_processor_s = 178, .terminal_idle_s = 150});
    EXPECT_EQ(watch.idle_seconds(120), 0);
    watch.observe(180, {.processor_s = 341, .own_processor_s = 178, .terminal_idle_s = 10});
    EXPECT_EQ(watch.idle_seconds(180), 10);
}

}  // namespace
}  // namespace dedloc::peer
