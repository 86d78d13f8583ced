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

// A validator computes all samples that a contribution names again, those that are left out, too.
TEST(CheckInput, bounds_the_samples_that_are_left_out) {
    const auto leaves_out = [](std::uint64_t count) {
        MemberInput input = input_of(0, 60);
        input.fresh.end += count;
        input.fresh.left_out = count;
        return input;
    };
    EXPECT_EQ(leaves_out(std::uint64_t{1} << 40).weight_max(), 60u);
    EXPECT_TRUE(check_input(leaves_out(100), 10, 100));
    EXPECT_FALSE(check_input(leaves_out(101), 10, 100));
    EXPECT_FALSE(check_input(leaves_out(std::uint64_t{1} << 40), 10, 100));
    MemberInput carried = input_of(60, 20);
    carried.fresh = {1000, 1020, 0};
    carried.carried = {0, 260, 200};
    EXPECT_FALSE(check_input(carried, 10, 100));
}

TEST(CheckInput, counters_that_a_micro_batch_would_overflow_are_refused) {
    constexpr std::uint64_t last = ~std::uint64_t{0};
    MemberInput input;
    input.fresh = {last - 40, last, 0};
    EXPECT_FALSE(check_input(input, 10, 100));
    input.fresh = {counters_max - 40, counters_max, 0};
    EXPECT_TRUE(check_input(input, 10, 100));
}

TEST(FragmentOf, fragments_take_turns_and_are_the_vector_together) {
    constexpr std::uint64_t most = ~std::uint64_t{0} / 2;
    for (const std::uint64_t count : {std::uint64_t{7}, std::uint64_t{1'000'003}, most}) {
        for (const std::uint64_t fragments : {1u, 2u, 5u, 7u}) {
            std::uint64_t end = 0;
            for (std::uint64_t step = 0; step < fragments; ++step) {
                const ElementRange range = fragment_of(count, fragments, step);
                EXPECT_EQ(range.offset, end);
                EXPECT_GE(range.count, count / fragments);
                EXPECT_LE(range.count, count / fragments + 1);
                EXPECT_EQ(fragment_of(count, fragments, step + 3 * fragments), range);
                end = range.end();
            }
            EXPECT_EQ(end, count);
        }
    }
}

}  // namespace
}  // namespace dedloc::consensus
