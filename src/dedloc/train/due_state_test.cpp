#include "dedloc/train/due_state.h"

#include <gtest/gtest.h>

namespace dedloc::train {
namespace {

class DueStateTest : public testing::Test {
  protected:
    static std::shared_ptr<const state::Snapshot> state_of(std::uint64_t step) {
        state::SnapshotInfo info;
        info.step = step;
        return *state::Snapshot::make(std::move(info), {{"parameters", {1, 2}}});
    }
    void make_step(std::uint64_t step) {
        newest_ = state_of(step);
        due_.record({.what = events::StepMade{.step = step}});
    }
    void begin() {
        due_.begin([this] { return newest_; });
    }

    DueState due_{20};
    std::shared_ptr<const state::Snapshot> newest_;
};

TEST_F(DueStateTest, is_that_of_the_step_however_many_follow_before_somebody_looks) {
    begin();
    for (std::uint64_t step = 79; step <= 93; ++step) make_step(step);
    const auto state = due_.take();
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(state->step(), 80u);
    EXPECT_EQ(due_.take(), nullptr) << "it was taken";
}

TEST_F(DueStateTest, is_the_newest_one_where_nobody_looked_for_long) {
    begin();
    for (std::uint64_t step = 1; step <= 70; ++step) make_step(step);
    EXPECT_EQ(due_.take()->step(), 60u);
}

TEST_F(DueStateTest, is_none_before_the_run_has_begun_and_of_a_state_that_is_gone) {
    make_step(20);
    EXPECT_EQ(due_.take(), nullptr);
    begin();
    newest_ = state_of(41);
    due_.record({.what = events::StepMade{.step = 40}});
    EXPECT_EQ(due_.take(), nullptr);
    due_.record({.what = events::PeerLost{}});
    EXPECT_EQ(due_.take(), nullptr);
}

}  // namespace
}  // namespace dedloc::train
