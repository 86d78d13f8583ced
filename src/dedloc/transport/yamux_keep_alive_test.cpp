#include "dedloc/transport/yamux_keep_alive.h"

#include <gtest/gtest.h>

namespace dedloc::transport {
namespace {

TimePoint at(Duration time) { return TimePoint{time}; }

TEST(KeepAlive, pings_at_once_and_then_every_interval_after_the_answer) {
    KeepAlive alive(at(1s), 30s);
    EXPECT_TRUE(alive.ping_is_due(at(1s)));
    const auto value = alive.probe(at(1s), 10s);
    ASSERT_TRUE(value);
    EXPECT_FALSE(alive.probe(at(2s), 20s));  // one is under way
    EXPECT_EQ(alive.next_tick(), at(11s));   // and wanted as soon as before
    alive.ping_leaves(at(2s));
    alive.receive_answer(*value + 1, at(3s));  // to another one
    EXPECT_FALSE(alive.round_trip());
    alive.receive_answer(*value, at(4s));
    EXPECT_EQ(alive.round_trip(), Duration(2s));
    EXPECT_EQ(alive.next_tick(), at(34s));
    EXPECT_FALSE(alive.ping_is_due(at(33s)));
    EXPECT_TRUE(alive.ping_is_due(at(34s)));
}

TEST(KeepAlive, smooths_the_round_trip) {
    KeepAlive alive(at(0s), 30s);
    alive.receive_answer(*alive.probe(at(0s), 10s), at(8s));
    alive.receive_answer(*alive.probe(at(40s), 10s), at(56s));
    EXPECT_EQ(alive.round_trip(), Duration(9s));
}

TEST(KeepAlive, gives_up_on_a_silent_peer_alone) {
    KeepAlive talks(at(0s), 30s);
    KeepAlive silent(at(0s), 30s);
    (void)talks.probe(at(5s), 10s);
    (void)silent.probe(at(5s), 10s);
    talks.hear(at(6s));
    EXPECT_TRUE(silent.is_alive(at(14s)));
    EXPECT_FALSE(silent.is_alive(at(15s)));
    EXPECT_TRUE(talks.is_alive(at(15s)));
    EXPECT_EQ(talks.next_tick(), at(45s));  // its answer queues behind data: it is asked again
}

}  // namespace
}  // namespace dedloc::transport
