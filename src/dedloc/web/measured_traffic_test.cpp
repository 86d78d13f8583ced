#include "dedloc/web/measured_traffic.h"

#include <gtest/gtest.h>

#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using testing::peer;

TEST(MeasuredTraffic, rates_are_over_the_last_seconds) {
    MeasuredTraffic traffic;
    EXPECT_TRUE(traffic.moved().empty());
    for (int quarter = 0; quarter <= 200; ++quarter)  // 50 s, looked at four times a second
        traffic.add(1000 + 0.25 * quarter,
                    {{peer(1), 100u * static_cast<unsigned>(quarter), 7},
                     {peer(2), 0, 1000u * static_cast<unsigned>(quarter)}});
    const auto moved = traffic.moved();
    ASSERT_EQ(moved.size(), 2u);
    EXPECT_EQ(moved[0].first, peer(2));  // most bytes first
    EXPECT_GE(moved[0].second.seconds, traffic_window_s);
    EXPECT_LE(moved[0].second.seconds, traffic_window_s + traffic_look_s);
    EXPECT_DOUBLE_EQ(moved[0].second.received_bytes / moved[0].second.seconds, 4000);
    EXPECT_DOUBLE_EQ(moved[1].second.sent_bytes / moved[1].second.seconds, 400);
    EXPECT_EQ(moved[1].second.received_bytes, 0);
}

TEST(MeasuredTraffic, a_silence_ends_a_rate) {
    MeasuredTraffic traffic;
    traffic.add(0, {{peer(1), 0, 0}});
    for (int second = 1; second < 30; ++second) traffic.add(second, {{peer(1), 500, 0}});
    ASSERT_EQ(traffic.moved().size(), 1u);
    EXPECT_EQ(traffic.moved()[0].second.sent_bytes, 0);
}

TEST(MeasuredTraffic, a_newcomer_is_measured_from_when_it_came) {
    MeasuredTraffic traffic;
    traffic.add(0, {});
    traffic.add(2, {{peer(1), 100, 0}});
    EXPECT_TRUE(traffic.moved().empty());
    traffic.add(4, {{peer(1), 300, 0}});
    ASSERT_EQ(traffic.moved().size(), 1u);
    EXPECT_EQ(traffic.moved()[0].second.seconds, 2);
    EXPECT_EQ(traffic.moved()[0].second.sent_bytes, 200);
}

TEST(MeasuredTraffic, neither_a_counter_that_began_anew_nor_a_clock_set_back_is_negative) {
    MeasuredTraffic traffic;
    traffic.add(10, {{peer(1), 1000, 0}});
    traffic.add(12, {{peer(1), 40, 0}});
    EXPECT_EQ(traffic.moved()[0].second.sent_bytes, 40);
    traffic.add(3, {{peer(1), 50, 0}});
    EXPECT_TRUE(traffic.moved().empty());
}

}  // namespace
}  // namespace dedloc::web
