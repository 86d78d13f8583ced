#include "dedloc/web/stream.h"

#include <gtest/gtest.h>

#include "dedloc/web/web_testing.h"

namespace dedloc::web {
namespace {

using enum membership::Phase;

std::size_t count_of(const std::string& text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++count;
    return count;
}

void advance(RunStore& store, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t step = first; step <= last; ++step) store.record(testing::step_event(step));
    store.update(
        testing::snapshot_of({testing::status_of(1, computing)}, 1000 + static_cast<double>(last)));
}

TEST(EventStream, begins_with_the_run_and_brings_each_event_once) {
    RunStore store(testing::facts());
    advance(store, 1, 2);
    EventStream stream(store, std::nullopt);
    std::string text = stream.take(0);
    EXPECT_EQ(count_of(text, "event: run\n"), 1u);
    EXPECT_EQ(count_of(text, "event: peers\n"), 1u);
    EXPECT_EQ(count_of(text, "event: event\n"), 0u);  // it has asked for those
    EXPECT_EQ(stream.take(0.1), "");
    advance(store, 3, 5);
    text = stream.take(0.2);
    EXPECT_EQ(count_of(text, "event: event\n"), 3u);
    EXPECT_EQ(count_of(text, "id: 5\n"), 1u);
    EXPECT_EQ(count_of(text, "event: run\n"), 0u);  // not so soon
    advance(store, 6, 6);
    text = stream.take(0.6);
    EXPECT_EQ(count_of(text, "event: event\n"), 1u);
    EXPECT_EQ(count_of(text, "event: run\n"), 1u);
}

// A replay that jumps to its end: all happens at once, and nothing after it.
TEST(EventStream, tells_the_last_state_though_nothing_happens_after_it) {
    RunStore store(testing::facts());
    advance(store, 1, 2);
    EventStream stream(store, std::nullopt);
    (void)stream.take(0);
    advance(store, 3, 9);
    std::string text = stream.take(0.1);
    EXPECT_EQ(count_of(text, "event: event\n"), 7u);
    EXPECT_EQ(count_of(text, "event: run\n"), 0u);
    text = stream.take(3);
    EXPECT_EQ(count_of(text, "event: event\n"), 0u);
    EXPECT_EQ(count_of(text, "event: run\n"), 1u);
    EXPECT_GE(count_of(text, "\"step\":9"), 1u);
    EXPECT_EQ(stream.take(3.1), "");
}

TEST(EventStream, goes_on_after_the_event_that_the_viewer_has) {
    RunStore store(testing::facts());
    advance(store, 1, 10);
    EventStream stream(store, 7);
    EXPECT_EQ(count_of(stream.take(0), "event: event\n"), 3u);
    EventStream after_a_restart(store, 5000);
    EXPECT_EQ(count_of(after_a_restart.take(0), "event: event\n"), 0u);
}

TEST(EventStream, tells_a_slow_viewer_of_the_gap) {
    RunStore store(testing::facts());
    advance(store, 1, 1);
    EventStream stream(store, std::nullopt);
    (void)stream.take(0);
    advance(store, 2, 2000);
    const std::string text = stream.take(1);
    EXPECT_EQ(count_of(text, "event: gap\ndata: {\"from\":2,\"to\":976}\n"), 1u);
    EXPECT_EQ(count_of(text, "event: event\n"), stream_events_max);
    std::size_t rest = 0;
    for (int i = 0; i < 20; ++i) {
        store.update(testing::snapshot_of({}, 4000 + i));
        rest += count_of(stream.take(2 + i), "event: event\n");
    }
    EXPECT_EQ(rest, kept_events_max - stream_events_max);
}

TEST(EventStream, comments_when_nothing_happens_and_tells_the_end) {
    RunStore store(testing::facts());
    advance(store, 1, 1);
    EventStream stream(store, std::nullopt);
    (void)stream.take(0);
    EXPECT_EQ(stream.take(5), "");
    EXPECT_EQ(stream.take(10.5), ":\n\n");
    store.end("the run is over\nand \"more\"");
    EXPECT_NE(stream.take(11).find("event: over\ndata: {\"reason\":\"the run is over\\nand"),
              std::string::npos);
    EXPECT_TRUE(stream.is_over());
}

TEST(EventStream, a_replay_that_jumps_back_begins_anew) {
    RunStore store(testing::facts(Mode::replay));
    advance(store, 1, 5);
    EventStream stream(store, std::nullopt);
    (void)stream.take(0);
    store.reset();
    advance(store, 1, 2);
    const std::string text = stream.take(5);
    EXPECT_LT(text.find("event: reset"), text.find("event: event"));
    EXPECT_EQ(count_of(text, "event: event\n"), 2u);
}

}  // namespace
}  // namespace dedloc::web
