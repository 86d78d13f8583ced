#include "dedloc/peer/cap_hint.h"

#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

constexpr double mbit = 1e6 / 8;

TEST(CapHint, a_cap_under_which_no_round_ends_is_told_with_the_one_that_is_enough) {
    run::AveragingConfig averaging;
    averaging.round_deadline_max = std::chrono::seconds(120);
    const std::string text = cap_hint(averaging, 52e6, {.up = mbit, .down = 100 * mbit});
    EXPECT_TRUE(
        text.starts_with("--max-up is too small, it must be 3.5 at least: one gradient has "
                         "52 MB and takes 6.9 min at 1 Mb/s"))
        << text;
    EXPECT_EQ(text.find("--max-down"), std::string::npos);
    const std::string both = cap_hint(averaging, 52e6, {.up = mbit, .down = mbit});
    EXPECT_NE(both.find("--max-down is too small"), std::string::npos);
}

TEST(CapHint, a_cap_that_is_enough_and_none_say_nothing) {
    run::AveragingConfig averaging;
    averaging.round_deadline_max = std::chrono::seconds(120);
    EXPECT_EQ(cap_hint(averaging, 52e6, {}), "");
    EXPECT_EQ(cap_hint(averaging, 52e6, {.up = 4 * mbit, .down = 4 * mbit}), "");
}

}  // namespace
}  // namespace dedloc::peer
