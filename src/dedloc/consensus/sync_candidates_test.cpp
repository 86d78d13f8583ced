// Which candidate is asked when, in virtual time.

#include "dedloc/consensus/sync_candidates.h"

#include <gtest/gtest.h>
#include <vector>

#include "dedloc/sim/world.h"

namespace dedloc::consensus {
namespace {

class SyncCandidatesTest : public testing::Test {
  protected:
    SyncCandidatesTest() : world_(3) {
        sim::SimNode& node = world_.add_node();
        for (int i = 0; i < 4; ++i) peers_.push_back(world_.add_node().id());
        std::ranges::sort(peers_);
        clock_ = &node.runtime().clock;
        sync_candidates_ = std::make_unique<SyncCandidates>(
            node.runtime().executor,
            *clock_,
            SyncCandidatesOptions{.ask = [this](const PeerId& peer) { return ask(peer); },
                                  .timeout = [] { return Duration(1s); }});
        sync_candidates_->start();
    }
    ~SyncCandidatesTest() override {
        world_.run_task(sync_candidates_->stop());
        for (std::size_t i = 0; i < world_.nodes_count(); ++i)
            world_.run_task(world_.node(i).host().stop());
    }
    Task<void> ask(PeerId peer) {
        asked_.push_back(number(peer));
        co_await clock_->sleep_for(answers_after_[number(peer)]);
    }
    std::size_t number(const PeerId& peer) const {
        return static_cast<std::size_t>(std::ranges::find(peers_, peer) - peers_.begin());
    }
    void add_all() {
        for (const PeerId& peer : peers_) sync_candidates_->add(peer);
    }

    sim::World world_;
    runtime::Clock* clock_ = nullptr;
    std::vector<PeerId> peers_;
    std::vector<std::size_t> asked_;
    std::vector<Duration> answers_after_ = std::vector<Duration>(4, 100ms);
    std::unique_ptr<SyncCandidates> sync_candidates_;
};

using Order = std::vector<std::size_t>;

TEST_F(SyncCandidatesTest, are_asked_one_after_the_other_and_once) {
    add_all();
    add_all();
    world_.run_for(150ms);
    EXPECT_EQ(asked_, (Order{0, 1}));
    EXPECT_FALSE(sync_candidates_->idle());
    world_.run_for(10s);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3}));
    EXPECT_TRUE(sync_candidates_->idle());
}

TEST_F(SyncCandidatesTest, who_is_silent_keeps_nobody_from_being_asked) {
    answers_after_ = {1h, 1h, 1h, 100ms};
    add_all();
    world_.run_for(2500ms);
    EXPECT_EQ(asked_, (Order{0, 1, 2}));
    world_.run_for(1s);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3}));
    sync_candidates_->add(peers_[3]);
    world_.run_for(10ms);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3, 3}));
    EXPECT_FALSE(sync_candidates_->idle());
}

TEST_F(SyncCandidatesTest, who_may_know_more_by_then_is_asked_again_when_it_has_answered) {
    sync_candidates_->add(peers_[0]);
    world_.run_for(50ms);
    sync_candidates_->add(peers_[0]);
    world_.run_for(40ms);
    EXPECT_EQ(asked_, (Order{0}));
    world_.run_for(20ms);
    EXPECT_EQ(asked_, (Order{0, 0}));
}

TEST_F(SyncCandidatesTest, that_are_named_again_and_again_do_not_hide_the_others) {
    add_all();
    for (int i = 0; i < 8; ++i) {
        world_.run_for(100ms);
        sync_candidates_->add(peers_[0]);
    }
    asked_.resize(5);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3, 0}));
}

}  // namespace
}  // namespace dedloc::consensus
