// Whole rounds of trainers in virtual time, as participate() shows them to their caller.

#include "dedloc/averaging/coordinator.h"

#include "dedloc/averaging/coordinator_testing.h"

namespace dedloc::averaging {
namespace {

class CoordinatorTest : public RoundTest {
  protected:
    void begin(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) add_trainer();
        begin_all();
    }
    void train_all() {
        for (auto& trainer : trainers_) trainer->train();
    }
    bool all_reach(std::uint64_t steps) {
        return world_.run_until(
            [&] {
                return std::ranges::all_of(
                    trainers_, [&](const auto& trainer) { return trainer->steps() >= steps; });
            },
            120s);
    }
    std::vector<PeerId> ids_of_newest_voters() const {
        std::vector<PeerId> ids;
        for (const consensus::Voter& voter : trainers_.front()->base().voters)
            ids.push_back(voter.peer);
        return ids;
    }
};

TEST_F(CoordinatorTest, an_only_trainer_steps_on_what_it_hands_in) {
    begin(1);
    bool done = false;
    trainers_[0]->hand_in({0, 4, 0}, done);
    ASSERT_TRUE(world_.run_until([&] { return done; }, 30s));
    EXPECT_EQ(trainers_[0]->steps(), 1u);
}

TEST_F(CoordinatorTest, three_trainers_are_in_one_step_and_agree_about_it) {
    begin(3);
    train_all();
    ASSERT_TRUE(all_reach(5));
    const consensus::Link* const commit = trainers_[0]->ledger().newest_commit();
    ASSERT_NE(commit, nullptr);
    EXPECT_EQ(commit->plan->members.size(), 3u);
    ASSERT_TRUE(world_.run_until(
        [&] {
            return trainers_[1]->base().previous == trainers_[0]->base().previous &&
                   trainers_[2]->base().previous == trainers_[0]->base().previous;
        },
        30s));
}

TEST_F(CoordinatorTest, members_of_a_step_vote_on_the_next_one) {
    begin(3);
    train_all();
    ASSERT_TRUE(all_reach(4));
    EXPECT_EQ(ids_of_newest_voters().size(), 3u);
}

TEST_F(CoordinatorTest, a_trainer_that_is_gone_stops_nobody) {
    begin(3);
    train_all();
    ASSERT_TRUE(all_reach(4));
    trainers_[2]->node().kill();
    const std::uint64_t steps = trainers_[0]->steps();
    EXPECT_TRUE(world_.run_until([&] { return trainers_[0]->steps() >= steps + 4; }, 120s));
    EXPECT_GE(trainers_[1]->steps() + 1, steps + 4);
}

TEST_F(CoordinatorTest, the_first_host_may_go) {
    begin(3);
    train_all();
    ASSERT_TRUE(all_reach(4));
    trainers_[0]->node().kill();
    const std::uint64_t steps = trainers_[1]->steps();
    EXPECT_TRUE(world_.run_until(
        [&] { return trainers_[1]->steps() >= steps + 4 && trainers_[2]->steps() >= steps + 3; },
        120s));
}

TEST_F(CoordinatorTest, a_peer_that_leaves_votes_no_more_after_the_next_step) {
    begin(3);
    train_all();
    ASSERT_TRUE(all_reach(4));
    const PeerId leaver = trainers_[2]->node().id();
    trainers_[2]->coordinator().set_leaving(true);
    EXPECT_TRUE(world_.run_until(
        [&] {
            const std::vector<PeerId> voters = ids_of_newest_voters();
            return std::ranges::find(voters, leaver) == voters.end();
        },
        60s));
}

TEST_F(CoordinatorTest, empty_hands_wait_for_a_while_and_then_compute) {
    begin(2);
    bool done = false;
    trainers_[1]->hand_in({}, done);
    ASSERT_TRUE(world_.run_until([&] { return done; }, 60s)) << "nobody brought anything";
    EXPECT_EQ(trainers_[1]->steps(), 0u);
}

}  // namespace
}  // namespace dedloc::averaging
