#include "dedloc/replica/kept_averages.h"

#include <gtest/gtest.h>

namespace dedloc::replica {
namespace {

TEST(KeptAverages, are_a_dozen_or_more_while_they_are_small_and_always_four) {
    EXPECT_EQ(kept_averages_bytes(1'000'000, 2), kept_averages_usual);
    EXPECT_EQ(kept_averages_bytes(0, 2, 7), 7u) << "who has no model";
    constexpr std::uint64_t average = 100'000'000 * 2 * std::uint64_t{9} / 8;  // bytes
    EXPECT_EQ(kept_averages_bytes(100'000'000, 2), 12 * average);
    EXPECT_EQ(kept_averages_bytes(300'000'000, 2), kept_averages_large);
    EXPECT_EQ(kept_averages_bytes(1'000'000'000, 2), 4 * 10 * average);
}

// 4 MB of parameters in fp32, in a container of 512 MiB: a hundred averages and more were kept.
TEST(KeptAverages, take_an_eighth_of_what_the_machine_has_at_most) {
    const std::uint64_t most = kept_averages_most(std::uint64_t{512} << 20);
    EXPECT_EQ(most, std::uint64_t{64} << 20);
    EXPECT_EQ(kept_averages_bytes(1 << 20, 4, kept_averages_usual, most), most);
    constexpr std::uint64_t average = 100'000'000 * 2 * std::uint64_t{9} / 8;
    EXPECT_EQ(kept_averages_bytes(100'000'000, 2, kept_averages_usual, most), 4 * average)
        << "a voter must hold what it votes for";
    EXPECT_EQ(kept_averages_most(0), kept_averages_large);
}

}  // namespace
}  // namespace dedloc::replica
