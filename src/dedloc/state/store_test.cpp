#include "dedloc/state/store.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <span>

namespace dedloc::state {
namespace {

class HandClock final : public runtime::Clock {
  public:
    TimePoint now() const override { return time; }
    WallSeconds wall_now() const override { return 0; }
    runtime::TimerId call_at(TimePoint, std::function<void()>) override { return 0; }
    void cancel_timer(runtime::TimerId) override {}
    TimePoint time{};
};

std::shared_ptr<const PublishedState> state_of_step(std::uint64_t step, std::size_t elements = 10) {
    SnapshotInfo info;
    info.step = step;
    std::vector<float> values(elements, static_cast<float>(step));
    auto snapshot = *Snapshot::make(info, {{.name = "w", .values = values}});
    auto manifest = make_manifest(*snapshot);
    return std::make_shared<PublishedState>(
        PublishedState{.snapshot = std::move(snapshot), .manifest = std::move(manifest)});
}

TEST(SnapshotStore, keeps_the_newest_steps) {
    HandClock clock;
    SnapshotStore store(clock,
                        {.steps_max = 2, .pinned_max = 2, .bytes_max = 1 << 20, .lease = 30s});
    EXPECT_EQ(store.newest(), nullptr);
    std::vector<std::shared_ptr<const PublishedState>> states;
    for (std::uint64_t step = 0; step < 5; ++step) {
        states.push_back(state_of_step(step));
        store.put(states.back());
    }
    EXPECT_EQ(store.newest(), states[4]);
    EXPECT_EQ(store.find(states[3]->root()), states[3]);
    EXPECT_EQ(store.find(states[2]->root()), nullptr);
    EXPECT_EQ(store.pin(states[2]->root()), nullptr);
    store.put(states[4]);
    EXPECT_EQ(store.size(), 2u);
}

TEST(SnapshotStore, keeps_a_pinned_state_until_its_lease_ends) {
    HandClock clock;
    SnapshotStore store(clock,
                        {.steps_max = 1, .pinned_max = 2, .bytes_max = 1 << 20, .lease = 30s});
    const auto first = state_of_step(0);
    store.put(first);
    EXPECT_NE(store.pin(first->root()), nullptr);
    store.put(state_of_step(1));
    clock.time = clock.time + 20s;
    store.put(state_of_step(2));
    EXPECT_NE(store.pin(first->root()), nullptr) << "renewed";
    clock.time = clock.time + 29s;
    store.put(state_of_step(3));
    EXPECT_NE(store.find(first->root()), nullptr);
    clock.time = clock.time + 2s;
    store.put(state_of_step(4));
    EXPECT_EQ(store.find(first->root()), nullptr);
    EXPECT_EQ(store.size(), 1u);
}

// Joiners that come one after the other, each at a later step; the first one's chunks go on.
TEST(SnapshotStore, who_has_loaded_longest_keeps_its_state_while_others_come_and_go) {
    HandClock clock;
    SnapshotStore store(clock,
                        {.steps_max = 1, .pinned_max = 2, .bytes_max = 1 << 20, .lease = 30s});
    std::vector<Digest> roots;
    for (std::uint64_t step = 0; step < 8; ++step) {
        const auto state = state_of_step(step);
        roots.push_back(state->root());
        store.put(state);
        EXPECT_NE(store.pin(state->root()), nullptr);
        for (const Digest& early : std::span(roots).first(std::min<std::size_t>(2, roots.size())))
            EXPECT_NE(store.pin(early), nullptr) << step;
        clock.time = clock.time + 10s;
    }
    EXPECT_EQ(store.size(), 3u);
    EXPECT_NE(store.find(roots[1]), nullptr);
    EXPECT_NE(store.find(roots[7]), nullptr);
}

TEST(SnapshotStore, nobody_keeps_a_state_for_ever) {
    HandClock clock;
    SnapshotStore store(clock,
                        {.steps_max = 1,
                         .pinned_max = 1,
                         .bytes_max = 1 << 20,
                         .lease = 30s,
                         .pinned_longest = 100s});
    const auto first = state_of_step(0);
    store.put(first);
    std::uint64_t step = 0;
    while (store.pin(first->root())) {
        ASSERT_LT(step, 20u);
        clock.time = clock.time + 10s;
        store.put(state_of_step(++step));
    }
    EXPECT_EQ(step, 10u);
}

TEST(SnapshotStore, of_large_states_there_are_fewer_copies) {
    HandClock clock;
    const std::uint64_t one = state_of_step(0, 1000)->snapshot->bytes_size();
    SnapshotStore store(clock, {.bytes_usual = 2 * one});
    std::vector<Digest> roots;
    for (std::uint64_t step = 0; step < 10; ++step) {
        const auto state = state_of_step(step, 1000);
        roots.push_back(state->root());
        store.put(state);
        if (step < 5) {
            EXPECT_NE(store.pin(state->root()), nullptr);
        }
        EXPECT_LE(store.size(), 4u) << "two, and two that are loaded";
    }
    EXPECT_EQ(store.roots(), (std::vector<Digest>{roots[0], roots[1], roots[8], roots[9]}));
}

TEST(SnapshotStore, bounds_pins_and_bytes) {
    HandClock clock;
    const std::uint64_t one = state_of_step(0, 1000)->snapshot->bytes_size();
    SnapshotStore store(clock,
                        {.steps_max = 2, .pinned_max = 2, .bytes_max = 3 * one, .lease = 30s});
    for (std::uint64_t step = 0; step < 20; ++step) {
        const auto state = state_of_step(step, 1000);
        store.put(state);
        EXPECT_NE(store.pin(state->root()), nullptr);
        EXPECT_LE(store.bytes(), 3 * one);
        EXPECT_LE(store.size(), 4u);
        EXPECT_EQ(store.newest(), state);
    }
    const auto huge = state_of_step(21, 100'000);
    store.put(huge);
    EXPECT_EQ(store.size(), 1u) << "the newest is kept, however large";
    EXPECT_EQ(store.newest(), huge);
}

}  // namespace
}  // namespace dedloc::state
