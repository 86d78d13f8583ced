#include "dedloc/cli/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <vector>

namespace dedloc::cli {
namespace {

// How many are counted when these come at once: raise() returns when the handler has.
[[noreturn]] void exit_with_count(const std::vector<int>& signals) {
    ::signal(SIGHUP, SIG_DFL);  // whoever runs the tests may ignore it
    catch_interrupts();
    for (const int number : signals) ::raise(number);
    ::_exit(interrupts());
}

TEST(Interrupts, what_comes_twice_at_once_was_meant_once) {
    const testing::ExitedWithCode once(1);
    EXPECT_EXIT(exit_with_count({SIGHUP, SIGHUP}), once, "") << "a terminal that closes";
    EXPECT_EXIT(exit_with_count({SIGTERM, SIGTERM}), once, "") << "timeout";
    EXPECT_EXIT(exit_with_count({SIGINT, SIGHUP, SIGTERM}), once, "");
}

}  // namespace
}  // namespace dedloc::cli
