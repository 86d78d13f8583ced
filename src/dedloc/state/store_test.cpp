#include "dedloc/state/store.h"

#include <gtest/gtest.h>

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
