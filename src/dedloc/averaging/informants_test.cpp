// Who is asked when, in virtual time.

#include "dedloc/averaging/informants.h"

#include <gtest/gtest.h>
#include <vector>

#include "dedloc/sim/world.h"

namespace dedloc::averaging {
namespace {

class InformantsTest : public testing::Test {
  protected:
    InformantsTest() : world_(3) {
        sim::SimNode& node = world_.add_node();
        for (int i = 0; i < 4; ++i) peers_.push_back(world_.add_node().id());
        std::ranges::sort(peers_);
        clock_ = &node.runtime().clock;
        informants_ = std::make_unique<Informants>(
            node.runtime().executor,
            *clock_,
            InformantsOptions{.ask = [this](const PeerId& peer) { return ask(peer); },
                              .patience = [] { return Duration(1s); }});
        informants_->start();
    }
    ~InformantsTest() override {
        world_.run_task(informants_->stop());
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
        for (const PeerId& peer : peers_) informants_->add(peer);
    }

    sim::World world_;
    runtime::Clock* clock_ = nullptr;
    std::vector<PeerId> peers_;
    std::vector<std::size_t> asked_;
    std::vector<Duration> answers_after_ = std::vector<Duration>(4, 100ms);
    std::unique_ptr<Informants> informants_;
};

using Order = std::vector<std::size_t>;

TEST_F(InformantsTest, are_asked_one_after_the_other_and_once) {
    add_all();
    add_all();
    world_.run_for(150ms);
    EXPECT_EQ(asked_, (Order{0, 1}));
    EXPECT_FALSE(informants_->idle());
    world_.run_for(10s);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3}));
    EXPECT_TRUE(informants_->idle());
}

TEST_F(InformantsTest, who_is_silent_keeps_nobody_from_being_asked) {
    answers_after_ = {1h, 1h, 1h, 100ms};
    add_all();
    world_.run_for(2500ms);
    EXPECT_EQ(asked_, (Order{0, 1, 2}));
    world_.run_for(1s);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3}));
    informants_->add(peers_[3]);
    world_.run_for(10ms);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3, 3}));
    EXPECT_FALSE(informants_->idle());
}

TEST_F(InformantsTest, who_may_know_more_by_then_is_asked_again_when_it_has_answered) {
    informants_->add(peers_[0]);
    world_.run_for(50ms);
    informants_->add(peers_[0]);
    world_.run_for(40ms);
    EXPECT_EQ(asked_, (Order{0}));
    world_.run_for(20ms);
    EXPECT_EQ(asked_, (Order{0, 0}));
}

TEST_F(InformantsTest, that_are_named_again_and_again_do_not_hide_the_others) {
    add_all();
    for (int i = 0; i < 8; ++i) {
        world_.run_for(100ms);
        informants_->add(peers_[0]);
    }
    asked_.resize(5);
    EXPECT_EQ(asked_, (Order{0, 1, 2, 3, 0}));
}

}  // namespace
}  // namespace dedloc::averaging
