#include "dedloc/monitor/attendance.h"

#include <gtest/gtest.h>

#include "dedloc/monitor/participation.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::monitor {
namespace {

constexpr WallSeconds opening = 1'800'000'000;

PeerId attendant(std::uint64_t number) { return security::toy_peer_id(number); }

CertifiedStep step_at(double time, std::vector<CertifiedStep::Share> shares) {
    return {.step = 1, .time = opening + time, .loss = {}, .shares = std::move(shares)};
}

TEST(Attendance, counts_the_time_of_steps_that_have_a_devices_samples) {
    Attendance attendance;
    for (double minute = 0; minute <= 60; ++minute) {
        const bool there = minute >= 10 && minute < 20;
        attendance.add(
            step_at(60 * minute, {{attendant(1), 100}, {attendant(2), there ? 50.0 : 0.0}}));
    }
    EXPECT_DOUBLE_EQ(attendance.seconds_of(attendant(1)), 3600 + session_least);
    EXPECT_DOUBLE_EQ(attendance.seconds_of(attendant(2)), 600);  // ten steps of a minute
    EXPECT_EQ(attendance.seconds_of(attendant(3)), 0);
    EXPECT_EQ(attendance.devices().at(attendant(2)).sessions, 1u);
}

TEST(Attendance, a_break_is_no_time_of_computing_and_a_short_one_is_part_of_a_session) {
    Attendance attendance;
    for (double minute = 0; minute <= 120; ++minute) {
        const bool away = minute > 10 && minute <= 60;  // and from 70 to 75 for a moment
        const bool out = minute > 70 && minute <= 75;
        if (away || out)
            attendance.add(step_at(60 * minute, {{attendant(1), 1}}));
        else
            attendance.add(step_at(60 * minute, {{attendant(1), 1}, {attendant(2), 1}}));
    }
    const DeviceTimes& times = attendance.devices().at(attendant(2));
    EXPECT_EQ(times.sessions, 2u);
    EXPECT_DOUBLE_EQ(times.seconds, 10 * 60 + session_least + 60 * 60);
    EXPECT_DOUBLE_EQ(times.longest_seconds, 60 * 60);
    EXPECT_DOUBLE_EQ(times.last_seen, opening + 120 * 60);
}

TEST(Attendance, slow_steps_are_one_session_and_none_counts_for_more_than_its_gap_at_first) {
    Attendance attendance;
    for (double step = 0; step < 10; ++step)
        attendance.add(step_at(1200 * step, {{attendant(1), 1}}));
    EXPECT_EQ(attendance.devices().at(attendant(1)).sessions, 1u);
    EXPECT_DOUBLE_EQ(attendance.seconds_of(attendant(1)), 9 * 1200 + session_least);
    Attendance pausing;
    pausing.add(step_at(0, {{attendant(1), 1}}));
    pausing.add(step_at(60, {{attendant(1), 1}}));
    pausing.add(step_at(7200, {{attendant(1), 1}}));  // all had paused
    EXPECT_DOUBLE_EQ(pausing.seconds_of(attendant(1)), 60 + session_least + session_gap);
}

TEST(Attendance, has_a_place_for_so_many_devices_and_goes_on_with_those) {
    Attendance attendance(2);
    for (double step = 0; step < 5; ++step)
        attendance.add(step_at(step, {{attendant(1), 1}, {attendant(2), 1}, {attendant(3), 1}}));
    EXPECT_EQ(attendance.devices().size(), 2u);
    EXPECT_DOUBLE_EQ(attendance.devices().at(attendant(1)).samples, 5);
}

// The page counts as steps come, the report when all is over: they tell the same.
TEST(Attendance, tells_what_the_report_tells) {
    std::vector<CertifiedStep> steps;
    Attendance attendance;
    double time = 0;
    for (std::uint64_t i = 0; i < 500; ++i) {
        time += static_cast<double>(1 + i * 7919 % 900);
        steps.push_back(
            step_at(time, {{attendant(1 + i % 3), 10}, {attendant(4 + i * 31 % 5), 20}}));
        attendance.add(steps.back());
    }
    const Participation report = participation_of(steps, {});
    double seconds = 0;
    std::uint64_t sessions = 0;
    for (const auto& [peer, times] : attendance.devices()) {
        seconds += times.seconds;
        sessions += times.sessions;
    }
    double told = 0;
    for (const PersonReport& person : report.persons) told += person.device_seconds;
    EXPECT_NEAR(seconds, told, 1e-6);
    EXPECT_EQ(sessions, report.sessions);
    EXPECT_LE(report.session_longest_seconds, time);
}

}  // namespace
}  // namespace dedloc::monitor
