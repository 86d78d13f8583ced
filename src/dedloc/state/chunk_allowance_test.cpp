#include "dedloc/state/chunk_allowance.h"

#include <gtest/gtest.h>

namespace dedloc::state {
namespace {

void ask(ChunkAllowance& allowance, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) allowance.asked();
}

TEST(ChunkAllowance, falls_to_a_quarter_of_what_was_asked_for_and_waits_twice_as_long) {
    ChunkAllowance allowance(10s);
    ask(allowance, 16);
    allowance.ended();
    allowance.less(TimePoint{20s});  // 15 and this one were under way
    for (int i = 0; i < 12; ++i) allowance.ended();
    EXPECT_FALSE(allowance.is_one_at_a_time());
    EXPECT_TRUE(allowance.may_ask());  // 3 of 4
    allowance.asked();
    EXPECT_FALSE(allowance.may_ask());
    EXPECT_EQ(allowance.timeout(), 20s);
    allowance.more();
    EXPECT_TRUE(allowance.may_ask());
}

TEST(ChunkAllowance, takes_chunks_that_fail_together_for_one_sign) {
    ChunkAllowance allowance(10s);
    ask(allowance, 8);
    allowance.less(TimePoint{20s});
    allowance.less(TimePoint{21s});
    EXPECT_EQ(allowance.timeout(), 20s);
    allowance.less(TimePoint{41s});
    EXPECT_EQ(allowance.timeout(), 40s);
    EXPECT_TRUE(allowance.is_one_at_a_time());
    for (int i = 0; i < 10; ++i) allowance.less(TimePoint{Duration(100s * (i + 1))});
    EXPECT_EQ(allowance.timeout(), chunk_timeout_max);
    EXPECT_FALSE(allowance.may_ask());  // never fewer than one; eight are under way
    for (int i = 0; i < 8; ++i) allowance.ended();
    EXPECT_TRUE(allowance.may_ask());
}

}  // namespace
}  // namespace dedloc::state
