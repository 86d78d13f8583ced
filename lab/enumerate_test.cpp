#include <gtest/gtest.h>

#include "lab/enumerate_command.h"

namespace dedloc::lab {
namespace {

TEST(Enumerate, a_killed_frozen_slow_or_cut_off_end_of_a_proposal_breaks_no_promise) {
    EnumerateCommand command;
    command.peers = 3;
    command.method = "propose";
    command.json = true;
    EXPECT_EQ(run_enumerate(command), 0);
}

TEST(Enumerate, a_message_that_no_step_has_is_bad_input) {
    EnumerateCommand command;
    command.peers = 3;
    command.method = "no such method";
    EXPECT_EQ(run_enumerate(command), 2);
}

}  // namespace
}  // namespace dedloc::lab
