#include "dedloc/peer/cap_schedule.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <time.h>

namespace dedloc::peer {
namespace {

constexpr int at(int hours, int minutes = 0) { return hours * 60 + minutes; }

CapSchedule schedule(std::string_view text) {
    auto parsed = CapSchedule::parse(text);
    EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().message());
    return parsed ? *parsed : CapSchedule();
}

std::string cap_complaint(std::string_view text) {
    const auto parsed = CapSchedule::parse(text);
    EXPECT_FALSE(parsed) << text;
    if (parsed) return {};
    EXPECT_EQ(parsed.error().kind(), ErrorKind::bad_input);
    return parsed.error().message();
}

TEST(CapSchedule, a_number_holds_all_day) {
    for (const int minute : {0, at(12), minutes_of_day - 1})
        EXPECT_EQ(schedule("20").value_at(minute), 20);
    EXPECT_EQ(schedule("0.5").value_at(at(3)), 0.5);
    EXPECT_EQ(schedule(" 20 ").value_at(0), 20);
}

TEST(CapSchedule, nought_and_off_are_no_limit) {
    EXPECT_EQ(schedule("0").value_at(at(12)), 0);
    EXPECT_EQ(schedule("off").value_at(at(12)), 0);
    EXPECT_EQ(schedule("5,23:00-07:00=off").value_at(at(1)), 0);
}

TEST(CapSchedule, a_range_may_pass_midnight_and_its_end_is_not_in_it) {
    const CapSchedule night = schedule("5,23:00-07:00=50");
    EXPECT_EQ(night.value_at(at(22, 59)), 5);
    EXPECT_EQ(night.value_at(at(23)), 50);
    EXPECT_EQ(night.value_at(at(23, 59)), 50);
    EXPECT_EQ(night.value_at(0), 50);
    EXPECT_EQ(night.value_at(at(6, 59)), 50);
    EXPECT_EQ(night.value_at(at(7)), 5);
}

TEST(CapSchedule, ranges_may_touch_and_have_spaces) {
    const CapSchedule day = schedule("off, 9:00-12:00=5, 12:00 - 18:30 = 2.5, 22:00-24:00=1");
    EXPECT_EQ(day.value_at(at(8, 59)), 0);
    EXPECT_EQ(day.value_at(at(11, 59)), 5);
    EXPECT_EQ(day.value_at(at(12)), 2.5);
    EXPECT_EQ(day.value_at(at(18, 30)), 0);
    EXPECT_EQ(day.value_at(at(23, 59)), 1);
    EXPECT_EQ(day.value_at(0), 0);
}

TEST(CapSchedule, what_is_wrong_is_said_with_an_example) {
    for (const std::string_view text : {"",
                                        "fast",
                                        "5Mb",
                                        "5,",
                                        "1,5",
                                        "5,23:00-07:00",
                                        "5,=50",
                                        "5,23:00=50",
                                        "5,23:00-07:00=50,",
                                        "5,night=50"})
        EXPECT_NE(cap_complaint(text).find("5,23:00-07:00=50"), std::string::npos)
            << cap_complaint(text);
    EXPECT_NE(cap_complaint("23:00-07:00=50").find("must come before"), std::string::npos);
    EXPECT_NE(cap_complaint("5,23:00-07:00=x").find("'x' is no number"), std::string::npos);
}

TEST(CapSchedule, values_have_bounds) {
    for (const std::string_view text : {"-1", "0.05", "1e7", "inf", "nan", "5,1:00-2:00=-3"})
        EXPECT_NE(cap_complaint(text).find("not between 0.1 and"), std::string::npos) << text;
}

TEST(CapSchedule, times_are_those_of_a_clock) {
    for (const std::string_view time :
         {"25:00", "24:01", "7", "07:60", "7:5", "-1:00", "a:00", "99999999999:00"}) {
        const std::string text = fmt::format("5,{}-08:00=1", time);
        EXPECT_NE(cap_complaint(text).find("no time of the day"), std::string::npos) << text;
    }
}

TEST(CapSchedule, at_any_time_one_value_counts) {
    for (const std::string_view text : {"5,08:00-12:00=1,11:00-13:00=2",
                                        "5,22:00-06:00=1,05:00-07:00=2",
                                        "5,22:00-06:00=1,23:00-24:00=2",
                                        "5,09:00-10:00=1,08:00-11:00=2"})
        EXPECT_NE(cap_complaint(text).find("overlaps"), std::string::npos) << text;
    for (const std::string_view text : {"5,08:00-08:00=1", "5,00:00-24:00=1", "5,24:00-00:00=1"})
        EXPECT_NE(cap_complaint(text).find("ends where it begins"), std::string::npos) << text;
}

TEST(CapSchedule, has_a_number_of_ranges_that_nobody_needs_more_of) {
    std::string text = "5";
    for (std::size_t i = 0; i < cap_ranges_max; ++i)
        text += fmt::format(",{0:02}:{1:02}-{0:02}:{2:02}=1", i / 3, i % 3 * 20, i % 3 * 20 + 10);
    EXPECT_EQ(schedule(text).value_at(at(15, 45)), 1);
    EXPECT_NE(cap_complaint(text + ",23:00-23:30=1").find("more than"), std::string::npos);
}

// The zone is the process's; ctest gives each test its own.
TEST(CapsOfDay, are_those_of_the_local_time_in_bytes) {
    ::setenv("TZ", "UTC-2", 1);  // two hours east
    ::tzset();
    const auto caps = caps_of_day("8,23:00-07:00=80", "");
    ASSERT_TRUE(caps);
    const WallSeconds nine_in_the_evening_utc = 1764882000;
    EXPECT_EQ(minute_of_day(nine_in_the_evening_utc), at(23));
    EXPECT_EQ((*caps)(nine_in_the_evening_utc - 1), (runtime::LineCaps{.up = 1e6, .down = 0}));
    EXPECT_EQ((*caps)(nine_in_the_evening_utc), (runtime::LineCaps{.up = 1e7, .down = 0}));
}

TEST(CapsOfDay, without_options_there_are_none_and_a_wrong_one_is_named) {
    const auto none = caps_of_day("", "");
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
    const auto wrong = caps_of_day("5", "much");
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message().find("--max-down 'much': "), 0u);
}

TEST(CapsOfDay, are_said_in_words) {
    EXPECT_EQ(caps_in_words({.up = 625'000, .down = 0}),
              "sends at most 5 Mb/s, receives without limit");
    EXPECT_EQ(caps_in_words({}), "sends and receives without limit");
}

}  // namespace
}  // namespace dedloc::peer
