#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/sim/enumerate_command.h"

namespace dedloc::lab {
namespace {

TEST(Enumerate, a_killed_frozen_slow_or_cut_off_end_of_a_proposal_breaks_no_promise) {
    EnumerateCommand command;
    command.peers = 3;
    command.method = "propose";
    command.json = true;
    EXPECT_EQ(run_enumerate(command), 0);
}

struct Told {
    int exit_code = 0;
    nlohmann::json json;
};

Told run(EnumerateCommand command) {
    command.json = true;
    testing::internal::CaptureStdout();
    Told told;
    told.exit_code = run_enumerate(command);
    told.json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    return told;
}

TEST(Enumerate, a_second_fault_meets_what_only_the_first_brought_about) {
    EnumerateCommand command;
    command.method = "plan";
    command.runs = 24;  // three messages, with every fault
    command.after_fault = true;
    command.second_max = 6;
    const Told told = run(command);
    EXPECT_EQ(told.exit_code, 0);
    EXPECT_EQ(told.json["runs"], 24);
    EXPECT_GT(told.json["histories"], 24 * 4);
    // The next leader's questions, and who fetches what it missed.
    for (const char* method : {"prepare", "certificates", "fetch"}) {
        const std::string name = std::string("/dedloc/round/1/") + method;
        EXPECT_TRUE(told.json["second_methods"].contains(name)) << told.json.dump();
        EXPECT_FALSE(told.json["methods"].contains(name));
    }
}

// A calm step takes two seconds here, and with one of four dead, longer.
TEST(Enumerate, a_step_that_comes_too_late_is_a_failure_and_is_named) {
    EnumerateCommand command;
    command.method = "plan";
    command.runs = 8;
    command.gap_max_s = 2.1;
    const Told told = run(command);
    EXPECT_EQ(told.exit_code, 9);
    EXPECT_GT(told.json["too_slow"], 0);
    ASSERT_FALSE(told.json["slow"].empty());
    const std::string slow = told.json["slow"][0];
    EXPECT_NE(slow.find("a step came"), std::string::npos) << slow;
    EXPECT_NE(slow.find("/dedloc/round/1/plan from n"), std::string::npos) << slow;
}

// Five machines, groups of two: the fifth only aggregates. Some such steps come later than the
// usual bound (docs/simulation.md).
TEST(Enumerate, the_steps_of_grids_and_of_aggregators_are_looked_at_as_well) {
    EnumerateCommand command;
    command.peers = 5;
    command.group_max = 2;
    command.aggregators = 1;
    command.method = "parts";
    command.runs = 24;
    command.gap_max_s = 9;
    const Told told = run(command);
    EXPECT_EQ(told.exit_code, 0) << told.json.dump();
    EXPECT_EQ(told.json["runs"], 24);
    EXPECT_GT(told.json["averages_of_grids"], 0);
    EXPECT_GT(told.json["parts_of_aggregators"], 0);
    EXPECT_EQ(told.json["samples_ahead"], 0);
}

TEST(Enumerate, trainers_may_compute_while_the_step_is_made) {
    EnumerateCommand command;
    command.delayed = true;
    command.method = "plan";
    command.runs = 8;
    const Told told = run(command);
    EXPECT_EQ(told.exit_code, 0) << told.json.dump();
    EXPECT_GT(told.json["samples_ahead"], 0);
}

// Two of four machines train: while one of them is dead there is no majority; an aggregator's
// outage is no reason to wait.
TEST(Enumerate, only_trainers_are_voters) {
    EnumerateCommand command;
    command.aggregators = 2;
    command.method = "plan";
    command.runs = 8;
    EXPECT_EQ(run(command).exit_code, 0);
    command.aggregators = 3;
    EXPECT_EQ(run_enumerate(command), 2);
}

TEST(Enumerate, a_message_that_no_step_has_is_bad_input) {
    EnumerateCommand command;
    command.peers = 3;
    command.method = "no such method";
    EXPECT_EQ(run_enumerate(command), 2);
}

}  // namespace
}  // namespace dedloc::lab
