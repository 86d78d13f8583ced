#include "dedloc/collab/not_finite_tally.h"

#include <gtest/gtest.h>

namespace dedloc::collab {
namespace {

TEST(NotFiniteTally, tells_the_first_at_once_and_then_the_rest_together) {
    NotFiniteTally tally;
    const TimePoint now{100s};
    EXPECT_EQ(tally.to_tell(now), 0u);
    tally.add(3);
    EXPECT_EQ(tally.to_tell(now), 3u);
    tally.add(4);
    tally.add(5);
    EXPECT_EQ(tally.to_tell(now + Duration(1s)), 0u);
    EXPECT_EQ(tally.to_tell(now + not_finite_pause), 9u);
    EXPECT_EQ(tally.all(), 12u);
}

}  // namespace
}  // namespace dedloc::collab
