#include "dedloc/collab/kept_averages.h"

#include <gtest/gtest.h>

namespace dedloc::collab {
namespace {

TEST(KeptAverages, are_a_dozen_or_more_while_they_are_small_and_always_four) {
    EXPECT_EQ(kept_averages_bytes(1'000'000, 2), kept_averages_usual);
    EXPECT_EQ(kept_averages_bytes(0, 2, 7), 7u) << "who has no model";
    constexpr std::uint64_t average = 100'000'000 * 2 * std::uint64_t{9} / 8;  // bytes
    EXPECT_EQ(kept_averages_bytes(100'000'000, 2), 12 * average);
    EXPECT_EQ(kept_averages_bytes(300'000'000, 2), kept_averages_large);
    EXPECT_EQ(kept_averages_bytes(1'000'000'000, 2), 4 * 10 * average);
}

}  // namespace
}  // namespace dedloc::collab
