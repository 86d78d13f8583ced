#include "dedloc/replica/step_report.h"

#include <gtest/gtest.h>

namespace dedloc::replica {
namespace {

TimePoint at(int seconds) { return TimePoint{Duration(std::chrono::seconds(100 + seconds))}; }

TEST(StepReport, the_four_times_are_all_of_the_step) {
    StepReport report;
    const consensus::Instance step{.branch = {}, .step = 4, .attempt = 1};
    report.begin(at(0));
    report.decided(at(8));
    report.planned(step, at(5), at(3));
    events::StepMade made;
    report.applied(step, at(9), made);
    EXPECT_EQ(made.seconds, 9);
    EXPECT_EQ(made.computing_s, 3);
    EXPECT_EQ(made.waiting_s, 2);
    EXPECT_EQ(made.averaging_s, 3);
    EXPECT_EQ(made.applying_s, 1);
}

TEST(StepReport, the_next_step_begins_where_this_one_was_applied) {
    StepReport report;
    report.begin(at(0));
    events::StepMade made;
    report.applied({}, at(9), made);
    report.applied({}, at(11), made);
    EXPECT_EQ(made.seconds, 2);
}

// Computed beforehand, say, or not at all.
TEST(StepReport, what_happened_before_the_step_began_takes_no_time_of_it) {
    StepReport report;
    const consensus::Instance step{.branch = {}, .step = 4, .attempt = 0};
    report.begin(at(6));
    report.decided(at(8));
    report.planned(step, at(5), at(3));
    events::StepMade made;
    report.applied(step, at(9), made);
    EXPECT_EQ(made.computing_s, 0);
    EXPECT_EQ(made.waiting_s, 0);
    EXPECT_EQ(made.averaging_s, 2);
}

TEST(StepReport, of_a_step_without_us_only_the_whole_is_known) {
    StepReport report;
    const consensus::Instance step{.branch = {}, .step = 4, .attempt = 0};
    report.begin(at(0));
    report.planned(step, at(5), at(3));
    events::StepMade made;
    report.applied({.branch = {}, .step = 5, .attempt = 0}, at(9), made);
    EXPECT_EQ(made.seconds, 9);
    EXPECT_FALSE(made.computing_s);
    report.begin_anew(at(20));
    report.applied(step, at(21), made);
    EXPECT_EQ(made.seconds, 1);
    EXPECT_FALSE(made.computing_s);
}

}  // namespace
}  // namespace dedloc::replica
