#include "dedloc/collab/waiting_file.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::collab {
namespace {

class WaitingFileTest : public testing::Test {
  protected:
    // A process begins, makes steps with these notes, and leaves in order or is killed. Returns
    // what a process before it took along.
    WaitingSamples process(std::vector<WaitingSamples> notes, bool leaves) {
        WaitingSamples lost;
        world.run_task(live(std::move(notes), leaves, lost));
        return lost;
    }

    Task<void> live(std::vector<WaitingSamples> notes, bool leaves, WaitingSamples& lost) {
        WaitingFile file(node.runtime());
        lost = co_await file.take_up();
        for (const WaitingSamples& note : notes) {
            file.note(note);
            co_await node.runtime().clock.sleep_for(1s);
        }
        if (leaves) left = co_await file.end();
        co_await file.stop();
    }

    sim::World world{1};
    sim::SimNode& node = world.add_node();
    WaitingSamples left;
};

TEST_F(WaitingFileTest, what_a_killed_process_took_along_is_told_once) {
    EXPECT_EQ(process({{0, 16, 32}, {16, 0, 48}}, /*leaves=*/false), WaitingSamples());
    EXPECT_EQ(process({}, /*leaves=*/false), (WaitingSamples{16, 0, 48}));
    EXPECT_EQ(process({}, /*leaves=*/false), WaitingSamples());
}

TEST_F(WaitingFileTest, a_peer_that_leaves_in_order_leaves_nothing_to_tell) {
    EXPECT_EQ(process({{0, 16}}, /*leaves=*/true), WaitingSamples());
    EXPECT_EQ(left, (WaitingSamples{0, 16}));
    EXPECT_EQ(process({{0, 8}, {0, 0}}, /*leaves=*/false), WaitingSamples());
    EXPECT_EQ(process({}, /*leaves=*/false), WaitingSamples());
}

TEST_F(WaitingFileTest, of_notes_that_come_at_once_the_newest_counts) {
    const auto hurry = [this]() -> Task<void> {
        WaitingFile file(node.runtime());
        (void)co_await file.take_up();
        for (std::uint64_t i = 1; i <= 5; ++i) file.note({i, 0});
        co_await node.runtime().clock.sleep_for(1s);
        co_await file.stop();
    };
    world.run_task(hurry());
    EXPECT_EQ(process({}, /*leaves=*/false), (WaitingSamples{5, 0}));
}

TEST_F(WaitingFileTest, a_damaged_note_tells_nothing) {
    const Bytes damaged(7, 1);
    ASSERT_TRUE(node.runtime().disk.write_atomically("waiting", damaged));
    EXPECT_EQ(process({}, /*leaves=*/false), WaitingSamples());
}

TEST(WaitingSamplesTest, count_by_their_fragment_s_part_of_the_vector) {
    EXPECT_EQ(total_of({30, 0, 60}, 9), 30u);
    EXPECT_EQ(total_of({}, 9), 0u);
    EXPECT_EQ(listed({30, 0, 60}), "0 (30 samples), 2 (60)");
    EXPECT_EQ(listed({0, 0}), "");
}

}  // namespace
}  // namespace dedloc::collab
