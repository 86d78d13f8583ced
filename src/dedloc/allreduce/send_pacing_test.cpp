#include "dedloc/allreduce/send_pacing.h"

#include <gtest/gtest.h>
#include <vector>

namespace dedloc::allreduce {
namespace {

TimePoint second(double seconds) { return TimePoint{} + from_seconds(seconds); }

// Two streams of ten parts.
SendPacing two_streams(Duration whole) {
    SendPacing even(1s, whole);
    for (std::uint32_t stream = 0; stream < 2; ++stream) even.begin(stream, 10, 0, second(0));
    return even;
}

TEST(SendPacing, lets_nobody_run_two_parts_ahead_of_a_stream_that_moves) {
    SendPacing even = two_streams(100s);
    even.sent(0, second(0.1));
    EXPECT_TRUE(even.may_send(0, second(0.1)));
    even.sent(0, second(0.2));
    EXPECT_FALSE(even.may_send(0, second(0.3)));
    EXPECT_TRUE(even.may_send(1, second(0.3)));
    even.sent(1, second(0.4));
    EXPECT_TRUE(even.may_send(0, second(0.4)));
}

TEST(SendPacing, who_has_few_parts_sends_each_when_it_is_due_by_who_has_many) {
    SendPacing even(1s, 100s);
    even.begin(0, 100, 0, second(0));
    even.begin(1, 2, 0, second(0));
    EXPECT_TRUE(even.may_send(1, second(0)));
    even.sent(1, second(0));
    for (int i = 0; i < 48; ++i) even.sent(0, second(0));
    EXPECT_FALSE(even.may_send(1, second(0)));
    even.sent(0, second(0));
    EXPECT_TRUE(even.may_send(1, second(0)));  // less than two of a hundred ahead of its half
}

TEST(SendPacing, who_has_many_parts_runs_ahead_by_two_of_those_who_have_few) {
    SendPacing even(1s, 100s);
    even.begin(0, 100, 0, second(0));
    even.begin(1, 10, 0, second(0));
    for (int i = 0; i < 19; ++i) even.sent(0, second(0));
    EXPECT_TRUE(even.may_send(0, second(0)));
    even.sent(0, second(0));
    EXPECT_FALSE(even.may_send(0, second(0)));
    even.sent(1, second(0));
    EXPECT_TRUE(even.may_send(0, second(0)));
}

TEST(SendPacing, phases_spread_what_many_streams_have_to_send) {
    SendPacing even(1s, 100s);
    even.begin(0, 100, 0, second(0));
    for (std::uint32_t stream = 1; stream <= 4; ++stream)
        even.begin(stream, 5, stream / 5.0 + 0.01, second(0));
    // By how many parts of the first each of the others may begin.
    std::vector<int> begun_after(5, -1);
    for (int i = 0; i < 20; ++i) {
        for (std::uint32_t stream = 1; stream <= 4; ++stream)
            if (begun_after[stream] < 0 && even.may_send(stream, second(0)))
                begun_after[stream] = i;
        even.sent(0, second(0));
    }
    EXPECT_EQ(begun_after, (std::vector<int>{-1, 3, 7, 11, 15}));
}

TEST(SendPacing, does_not_wait_for_a_stream_that_stands_still_nor_again_later) {
    SendPacing even = two_streams(100s);
    for (int i = 0; i < 3; ++i) even.sent(0, second(0.5));
    EXPECT_FALSE(even.may_send(0, second(0.9)));
    EXPECT_TRUE(even.may_send(0, second(1.1)));
    even.sent(1, second(1.2));
    EXPECT_TRUE(even.may_send(0, second(1.2)));
}

TEST(SendPacing, does_not_wait_for_a_stream_that_cannot_be_done_in_time) {
    SendPacing even = two_streams(10s);
    for (int i = 0; i < 9; ++i) even.sent(0, second(1));
    double now = 0;
    for (int i = 0; i < 4; ++i) even.sent(1, second(now += 0.9));
    EXPECT_FALSE(even.may_send(0, second(now)));
    EXPECT_TRUE(
        even.may_send(0, second(6.1)));  // half of it was due at 5 s, and a second's timeout
}

TEST(SendPacing, forgets_streams_that_ended_or_have_sent_all) {
    SendPacing even(1s, 100s);
    for (std::uint32_t stream = 0; stream < 3; ++stream) even.begin(stream, 3, 0, second(0));
    even.end(1);
    for (int i = 0; i < 3; ++i) even.sent(2, second(0));
    for (int i = 0; i < 3; ++i) even.sent(0, second(0));
    EXPECT_TRUE(even.may_send(0, second(0)));
}

}  // namespace
}  // namespace dedloc::allreduce
