#include "dedloc/consensus/member_input.h"

#include <gtest/gtest.h>

namespace dedloc::consensus {
namespace {

MemberInput input_of(std::uint64_t carried, std::uint64_t fresh) {
    MemberInput input;
    input.carried = {0, carried, 0};
    input.fresh = {carried, carried + fresh, 0};
    if (carried > 0) input.carried_ranges = {{0, 10}};
    return input;
}

TEST(CheckInput, bounds_fresh_and_carried_samples_together) {
    constexpr std::uint64_t many = std::uint64_t{1} << 63;
    EXPECT_TRUE(check_input(input_of(40, 60), 10, 100));
    EXPECT_TRUE(check_input(input_of(0, 100), 10, 100));
    EXPECT_FALSE(check_input(input_of(41, 60), 10, 100));
    EXPECT_FALSE(check_input(input_of(0, 101), 10, 100));
    EXPECT_FALSE(check_input(input_of(101, 0), 10, 100));
    EXPECT_FALSE(check_input(input_of(many, many - 1), 10, 100));
}

}  // namespace
}  // namespace dedloc::consensus
