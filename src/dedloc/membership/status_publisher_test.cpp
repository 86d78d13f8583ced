#include "dedloc/membership/status_publisher.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::membership {
namespace {

TEST(StatusPublisher, every_status_is_newer_than_the_one_before) {
    sim::World world(3);
    StatusPublisher publisher(world.add_node().host(), Role::trainer, std::string(150, 'n'), 41);
    const Status first = publisher.next();
    EXPECT_EQ(first.sequence, 42u);
    EXPECT_EQ(first.phase, Phase::starting);
    EXPECT_EQ(first.name.size(), status_name_bytes_max);
    EXPECT_EQ(first.accuracy_step, 0u);
    publisher.set_accuracy(7, 0.5);
    EXPECT_TRUE(publisher.set_phase(Phase::computing));
    EXPECT_FALSE(publisher.set_phase(Phase::computing));
    const Status second = publisher.next();
    EXPECT_EQ(second.sequence, 43u);
    EXPECT_EQ(second.phase, Phase::computing);
    EXPECT_EQ(second.accuracy, 0.5);
    EXPECT_EQ(second.accuracy_step, 7u);
}

}  // namespace
}  // namespace dedloc::membership
