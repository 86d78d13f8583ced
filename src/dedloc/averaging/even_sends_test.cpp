#include "dedloc/averaging/even_sends.h"

#include <gtest/gtest.h>

namespace dedloc::averaging {
namespace {

TimePoint second(double seconds) { return TimePoint{} + from_seconds(seconds); }

// Two streams of ten parts.
EvenSends two_streams(Duration whole) {
    EvenSends even(1s, whole);
    for (std::uint32_t stream = 0; stream < 2; ++stream) even.begin(stream, 10, second(0));
    return even;
}

TEST(EvenSends, lets_nobody_run_two_parts_ahead_of_a_stream_that_moves) {
    EvenSends even = two_streams(100s);
    even.sent(0, second(0.1));
    EXPECT_TRUE(even.may_send(0, second(0.1)));
    even.sent(0, second(0.2));
    EXPECT_FALSE(even.may_send(0, second(0.3)));
    EXPECT_TRUE(even.may_send(1, second(0.3)));
    even.sent(1, second(0.4));
    EXPECT_TRUE(even.may_send(0, second(0.4)));
}

TEST(EvenSends, counts_in_shares_of_what_each_stream_has_to_send) {
    EvenSends even(1s, 100s);
    even.begin(0, 100, second(0));
    even.begin(1, 2, second(0));
    for (int i = 0; i < 51; ++i) even.sent(0, second(0));
    EXPECT_FALSE(even.may_send(0, second(0)));
    even.sent(1, second(0));
    EXPECT_TRUE(even.may_send(0, second(0)));  // one ahead of its half
}

TEST(EvenSends, does_not_wait_for_a_stream_that_stands_still_nor_again_later) {
    EvenSends even = two_streams(100s);
    for (int i = 0; i < 3; ++i) even.sent(0, second(0.5));
    EXPECT_FALSE(even.may_send(0, second(0.9)));
    EXPECT_TRUE(even.may_send(0, second(1.1)));
    even.sent(1, second(1.2));
    EXPECT_TRUE(even.may_send(0, second(1.2)));
}

TEST(EvenSends, does_not_wait_for_a_stream_that_cannot_be_done_in_time) {
    EvenSends even = two_streams(10s);
    for (int i = 0; i < 9; ++i) even.sent(0, second(1));
    double now = 0;
    for (int i = 0; i < 4; ++i) even.sent(1, second(now += 0.9));
    EXPECT_FALSE(even.may_send(0, second(now)));
    EXPECT_TRUE(
        even.may_send(0, second(6.1)));  // half of it was due at 5 s, and a second's patience
}

TEST(EvenSends, forgets_streams_that_ended_or_have_sent_all) {
    EvenSends even(1s, 100s);
    for (std::uint32_t stream = 0; stream < 3; ++stream) even.begin(stream, 3, second(0));
    even.end(1);
    for (int i = 0; i < 3; ++i) even.sent(2, second(0));
    for (int i = 0; i < 3; ++i) even.sent(0, second(0));
    EXPECT_TRUE(even.may_send(0, second(0)));
}

}  // namespace
}  // namespace dedloc::averaging
