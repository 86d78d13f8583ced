#include "dedloc/experts/update_guard.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/experts/update_pool.h"
#include "dedloc/sim/world.h"

namespace dedloc::experts {
namespace {

class UpdateGuardTest : public ::testing::Test {
  protected:
    UpdateGuardTest() {
        for (int i = 0; i < 4; ++i) members.push_back(world.add_node().id());
    }
    // A gradient of that norm a root of rows; true if it was applied.
    bool send(std::size_t member, double norm, std::size_t rows = 16) {
        const auto verdict = guard.check(limits, members[member], rows, now);
        const double length = norm * std::sqrt(static_cast<double>(rows));
        guard.note(limits, members[member], rows, now, {verdict.applies, length});
        applied_norm = std::min(length, verdict.norm_max);
        return verdict.applies;
    }

    sim::World world{1};
    std::vector<PeerId> members;
    UpdateLimits limits;
    UpdateGuard guard;
    TimePoint now;
    double applied_norm = 0;
};

TEST_F(UpdateGuardTest, a_gradient_is_at_most_a_few_times_as_long_as_those_of_others) {
    for (int i = 0; i < 20; ++i) send(0, 1);
    send(1, 1000);
    EXPECT_DOUBLE_EQ(applied_norm, 3 * 4);
    // However often it comes: the lower one of two is usual.
    for (int i = 0; i < 100; ++i) {
        now = now + std::chrono::seconds(1);
        send(0, 1);
        send(1, 1000);
        EXPECT_LE(applied_norm, 3.01 * 4);
    }
    // Twice as long is nothing unusual.
    send(0, 2);
    EXPECT_DOUBLE_EQ(applied_norm, 2 * 4);
}

TEST_F(UpdateGuardTest, who_comes_first_does_not_decide_what_is_usual) {
    for (int i = 0; i < 20; ++i) send(0, 1000);
    send(1, 1);
    send(0, 1000);
    EXPECT_LE(applied_norm, 3.01 * 4);
}

TEST_F(UpdateGuardTest, gradients_that_grow_with_the_training_are_followed) {
    for (double norm = 1; norm < 1000; norm *= 1.1) {
        send(0, norm);
        EXPECT_DOUBLE_EQ(applied_norm, norm * 4);
    }
}

TEST_F(UpdateGuardTest, a_flood_has_no_more_than_its_share_while_others_train) {
    double rows[2] = {0, 0};
    for (int tick = 0; tick < 1000; ++tick) {
        now = now + std::chrono::milliseconds(50);
        if (tick % 4 == 0) rows[0] += send(0, 1) ? 16 : 0;
        for (int i = 0; i < 15; ++i) rows[1] += send(1, 1) ? 16 : 0;
    }
    EXPECT_EQ(rows[0], 250 * 16);
    EXPECT_LE(rows[1], 1.6 * rows[0]);
    EXPECT_GE(rows[1], 1.2 * rows[0]);
}

TEST_F(UpdateGuardTest, equals_are_not_held_up_and_who_is_alone_is_not_at_all) {
    for (int tick = 0; tick < 200; ++tick) {
        now = now + std::chrono::milliseconds(50);
        for (std::size_t member = 0; member < 3; ++member) EXPECT_TRUE(send(member, 1));
    }
    now = now + limits.lately + std::chrono::seconds(1);
    for (int tick = 0; tick < 200; ++tick) EXPECT_TRUE(send(0, 1));
}

TEST_F(UpdateGuardTest, who_does_not_train_changes_nothing) {
    limits.trains = [this](const PeerId& member) { return member == members[0]; };
    EXPECT_TRUE(send(0, 1));
    EXPECT_FALSE(send(1, 1));
    EXPECT_EQ(guard.active(limits, now), 1u);
}

TEST_F(UpdateGuardTest, remembers_a_bounded_number_of_members) {
    limits.members_max = 3;
    for (std::size_t member = 0; member < 4; ++member) {
        now = now + std::chrono::seconds(1);
        send(member, 1);
    }
    EXPECT_EQ(guard.active(limits, now), 3u);
}

TEST(UpdatePool, one_liar_of_three_bends_an_update_by_no_more_than_the_others_differ) {
    sim::World world(1);
    const std::vector<float> honest{1, 2, 3};
    for (const float lie : {-1000.0f, 1e6f, 0.0f}) {
        UpdatePool pool;
        pool.add(world.add_node().id(), 2, {2, 4, 6});
        pool.add(world.add_node().id(), 2, {2.2f, 4, 5.8f});
        pool.add(world.add_node().id(), 2000, {lie, lie, lie});
        EXPECT_EQ(pool.members(), 3u);
        const std::vector<float> update = pool.take();
        EXPECT_EQ(pool.members(), 0u);
        double along = 0;
        double squares = 0;
        for (std::size_t i = 0; i < honest.size(); ++i) {
            along += static_cast<double>(update[i]) * honest[i];
            squares += static_cast<double>(update[i]) * update[i];
        }
        EXPECT_GT(along, 0) << lie;
        EXPECT_LT(std::sqrt(squares), 60) << lie;  // the two alone: 22 for 4 rows
    }
}

TEST(UpdatePool, what_one_member_sends_twice_is_one_voice) {
    sim::World world(1);
    const PeerId member = world.add_node().id();
    UpdatePool pool;
    pool.add(member, 1, {1});
    pool.add(member, 3, {7});
    EXPECT_EQ(pool.members(), 1u);
    EXPECT_NEAR(pool.take().front(), 8, 1e-4);
}

}  // namespace
}  // namespace dedloc::experts
