#include "tests/process/stolen_time.h"

#include <gtest/gtest.h>
#include <sstream>

namespace dedloc::lab {
namespace {

void take(StolenTime& stolen, double now, int idle, int steal) {
    std::istringstream text("cpu  10 0 10 " + std::to_string(idle) + " 0 0 0 " +
                            std::to_string(steal) + " 5 0\ncpu0 1 1 1 1\n");
    stolen.take(now, text);
}

TEST(StolenTime, is_the_share_of_the_moments_asked_about) {
    StolenTime stolen;
    take(stolen, 1.0, 100, 0);
    take(stolen, 2.0, 200, 0);
    take(stolen, 3.0, 250, 50);
    take(stolen, 4.0, 350, 50);
    EXPECT_DOUBLE_EQ(stolen.share(1.1, 1.9), 0.0);
    EXPECT_DOUBLE_EQ(stolen.share(2.2, 2.8), 0.5);
    EXPECT_DOUBLE_EQ(stolen.share(3.5, 9.0), 0.0);
    EXPECT_DOUBLE_EQ(stolen.share(0.0, 9.0), 50.0 / 300);
}

TEST(StolenTime, is_nothing_where_the_system_does_not_tell) {
    StolenTime stolen;
    std::istringstream nothing;
    stolen.take(1.0, nothing);
    std::istringstream old_kernel("cpu 1 2 3 4\n");
    stolen.take(2.0, old_kernel);
    EXPECT_EQ(stolen.share(0.0, 9.0), 0.0);
}

}  // namespace
}  // namespace dedloc::lab
