#include "dedloc/peer/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <vector>

namespace dedloc::peer {
namespace {

// How many are counted when these come at once, or so far apart: raise() returns when the handler
// has.
[[noreturn]] void exit_with_count(const std::vector<int>& signals, useconds_t apart_us = 0) {
    ::signal(SIGHUP, SIG_DFL);  // whoever runs the tests may ignore it
    catch_interrupts();
    for (const int number : signals) {
        ::raise(number);
        ::usleep(apart_us);
    }
    ::_exit(interrupts());
}

TEST(Interrupts, what_comes_twice_at_once_was_meant_once) {
    const testing::ExitedWithCode once(1);
    EXPECT_EXIT(exit_with_count({SIGHUP, SIGHUP}), once, "") << "a terminal that closes";
    EXPECT_EXIT(exit_with_count({SIGTERM, SIGTERM}), once, "") << "timeout";
    EXPECT_EXIT(exit_with_count({SIGINT, SIGHUP, SIGTERM}), once, "");
}

[[noreturn]] void exit_early() {
    end_when_interrupted("nothing was done\n");
    ::raise(SIGTERM);
    ::_exit(1);
}

TEST(Interrupts, who_has_nothing_to_end_in_order_says_so_and_goes) {
    EXPECT_EXIT(exit_early(), testing::ExitedWithCode(130), "nothing was done");
}

// The wait is what is tested: within a tenth of a second of the first, nothing is the second.
TEST(Interrupts, the_second_ends_at_once_unless_it_is_a_terminal_that_closes) {
    constexpr useconds_t later_us = 600'000;
    EXPECT_EXIT(exit_with_count({SIGINT, SIGINT}, later_us), testing::ExitedWithCode(130), "");
    EXPECT_EXIT(exit_with_count({SIGINT, SIGHUP}, later_us), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace dedloc::peer
