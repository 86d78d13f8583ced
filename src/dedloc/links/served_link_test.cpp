#include "dedloc/links/served_link.h"

#include <gtest/gtest.h>

namespace dedloc::links {
namespace {

TEST(ServedLink, tells_what_went_out_beside_talk_and_how_long_the_link_was_busy_with_it) {
    ServedLink link;
    link.observe(1000, TimePoint{1s}, 100);
    (void)link.take();
    link.observe(1100, TimePoint{2s}, 100);    // talk
    link.observe(51'300, TimePoint{4s}, 100);  // 50 kB in two seconds, and talk
    link.observe(51'400, TimePoint{9s}, 100);
    const Served served = link.take();
    EXPECT_DOUBLE_EQ(served.seconds, 8);
    EXPECT_DOUBLE_EQ(served.busy_seconds, 2);
    EXPECT_DOUBLE_EQ(served.talk_bytes, 800);
    EXPECT_DOUBLE_EQ(served.bytes, 50'400 - 800);
    EXPECT_DOUBLE_EQ(link.take().seconds, 0);
}

}  // namespace
}  // namespace dedloc::links
