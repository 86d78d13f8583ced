#include "dedloc/tasks/sample_order.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/tasks/tasks_testing.h"

namespace dedloc::tasks {
namespace {

TEST(SampleOrder, shows_every_sample_once_an_epoch) {
    SampleOrder order(5, made_peer(1), 1000);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::uint32_t> indices = order.indices({epoch * 1000, (epoch + 1) * 1000});
        std::sort(indices.begin(), indices.end());
        for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(indices[i], i);
    }
}

TEST(SampleOrder, depends_on_its_three_numbers_only) {
    SampleOrder forward(5, made_peer(1), 100);
    SampleOrder backward(5, made_peer(1), 100);
    std::vector<std::uint32_t> seen;
    for (std::uint64_t counter = 0; counter < 500; ++counter)
        seen.push_back(forward.index(counter));
    for (std::uint64_t counter = 500; counter-- > 0;) {
        EXPECT_EQ(backward.index(counter), seen[counter]);
    }
}

TEST(SampleOrder, differs_between_peers_seeds_and_epochs) {
    const std::vector<std::uint32_t> one = SampleOrder(5, made_peer(1), 1000).indices({0, 1000});
    EXPECT_NE(one, SampleOrder(5, made_peer(2), 1000).indices({0, 1000}));
    EXPECT_NE(one, SampleOrder(6, made_peer(1), 1000).indices({0, 1000}));
    EXPECT_NE(one, SampleOrder(5, made_peer(1), 1000).indices({1000, 2000}));
}

// Part of the run's definition: whoever changes it changes what peers compute (numerics version).
TEST(SampleOrder, is_the_order_that_was_written_down) {
    SampleOrder order(1, made_peer(7), 60'000);
    EXPECT_EQ(order.indices({0, 4}), (std::vector<std::uint32_t>{32398, 40740, 28414, 11415}));
    EXPECT_EQ(order.index(123'456'789), 382u);
}

TEST(SampleOrder, tosses_fair_coins_that_repeat) {
    const SampleOrder order(5, made_peer(1), 100);
    const SampleOrder same(5, made_peer(1), 100);
    int heads = 0;
    for (std::uint64_t counter = 0; counter < 10'000; ++counter) {
        heads += order.coin(counter) ? 1 : 0;
        ASSERT_EQ(order.coin(counter), same.coin(counter));
    }
    EXPECT_NEAR(heads, 5000, 300);
}

TEST(SampleOrder, has_randomness_of_its_own_for_each_sample) {
    SampleOrder order(5, made_peer(1), 100);
    const std::uint64_t third = order.random(3).next();
    (void)order.index(250);
    EXPECT_EQ(order.random(3).next(), third) << "of the number alone";
    EXPECT_NE(order.random(103).next(), third) << "the same picture, an epoch later";
    EXPECT_NE(SampleOrder(5, made_peer(2), 100).random(3).next(), third);
    EXPECT_NE(SampleOrder(6, made_peer(1), 100).random(3).next(), third);
}

}  // namespace
}  // namespace dedloc::tasks
