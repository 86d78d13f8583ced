#include "dedloc/monitor/participation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/charts.h"
#include "dedloc/monitor/compare_page.h"
#include "dedloc/monitor/report_page.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::monitor {
namespace {

constexpr WallSeconds noon = 1'800'000'000;

PeerId device(std::uint64_t number) { return security::toy_peer_id(number); }

// A step a minute; device 1 is there always, device 2 for the minutes [10, 20) and [60, 65).
std::vector<CertifiedStep> two_hours() {
    std::vector<CertifiedStep> steps;
    for (std::uint64_t minute = 0; minute < 120; ++minute) {
        CertifiedStep step{minute, noon + 60.0 * double(minute), 3.0 / double(minute + 1), {}};
        step.shares.push_back({device(1), 100});
        const bool there = (minute >= 10 && minute < 20) || (minute >= 60 && minute < 65);
        if (there) step.shares.push_back({device(2), 50});
        steps.push_back(std::move(step));
    }
    return steps;
}

TEST(Participation, counts_samples_and_sessions_from_certified_steps) {
    const Participation report = participation_of(two_hours(), {{device(2), "ana"}});
    EXPECT_EQ(report.steps, 120u);
    EXPECT_DOUBLE_EQ(report.samples, 120 * 100 + 15 * 50);
    EXPECT_EQ(report.devices, 2u);
    EXPECT_EQ(report.sessions, 3u);
    ASSERT_EQ(report.persons.size(), 2u);
    const PersonReport& ana = report.persons[1];
    EXPECT_EQ(ana.name, "ana");
    EXPECT_EQ(ana.sessions, 2u);
    EXPECT_DOUBLE_EQ(ana.device_seconds, 15 * 60);
    EXPECT_DOUBLE_EQ(ana.first_seen, noon + 9 * 60);
    EXPECT_DOUBLE_EQ(ana.last_seen, noon + 64 * 60);
    EXPECT_NEAR(report.session_longest_seconds, 119 * 60, 2);
}

TEST(Participation, of_one_persons_devices_is_added_up) {
    const Participation report =
        participation_of(two_hours(), {{device(1), "ana"}, {device(2), "ana"}});
    ASSERT_EQ(report.persons.size(), 1u);
    EXPECT_EQ(report.persons[0].devices, 2u);
    EXPECT_EQ(report.persons[0].sessions, 3u);
    EXPECT_DOUBLE_EQ(report.participation_median_seconds, report.persons[0].device_seconds);
}

TEST(Participation, of_a_long_run_is_drawn_with_few_points_that_lose_no_sample) {
    std::vector<CertifiedStep> steps;
    for (std::uint64_t i = 0; i < 10'000; ++i)
        steps.push_back({i, noon + 60.0 * double(i), 1.0, {{device(1), 1}}});
    const Participation report = participation_of(steps, {});
    ASSERT_EQ(report.curve.size(), curve_points_max);
    double samples = 0;
    for (const CurvePoint& point : report.curve) samples += point.samples;
    EXPECT_DOUBLE_EQ(samples, 10'000);
    EXPECT_EQ(report.curve.back().step, 9'999u);
    EXPECT_EQ(report.steps_by_day.size(), 7u);
    EXPECT_EQ(report.steps_by_day[0], 1440u);
}

TEST(Participation, of_an_empty_run_says_so_and_divides_by_nothing) {
    const Participation report = participation_of({}, {});
    EXPECT_EQ(nlohmann::json::parse(to_json(report))["people"], 0);
    EXPECT_NE(report_page({"r", "0", "today"}, report).find("No certified step"),
              std::string::npos);
}

TEST(Participation, as_json_has_what_the_text_says) {
    const Participation report = participation_of(two_hours(), {{device(2), "ana"}});
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["persons"][1]["name"], "ana");
    EXPECT_EQ(json["sessions"], 3);
    EXPECT_NE(to_text(report).find("2 people with 2 devices in 3 sessions"), std::string::npos)
        << to_text(report);
}

TEST(ReportPage, shows_names_escaped_and_asks_nobody_for_anything) {
    const Participation report =
        participation_of(two_hours(), {{device(2), "<script>alert('x')</script>"}});
    const std::string page = report_page({"Bengali & more", "1a2b", "today"}, report);
    EXPECT_EQ(page.find("<script"), std::string::npos);
    EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
    EXPECT_NE(page.find("Bengali &amp; more"), std::string::npos);
    for (const char* outside : {"http:", "https:", "src=", "url("})
        EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(ReportPage, counts_people_and_devices_as_people_do) {
    const Participation report = participation_of(
        {{1, noon, 1.0, {{device(1), 1}}}, {2, noon + 60, 1.0, {{device(1), 1}}}}, {});
    EXPECT_NE(to_text(report).find("1 person with 1 device in 1 session:"), std::string::npos)
        << to_text(report);
    const std::string page = report_page({"r", "0", "today"}, report);
    EXPECT_NE(page.find("<span>person</span>"), std::string::npos);
    EXPECT_EQ(page.find(">0.2<"), std::string::npos) << "no fifth of a device is drawn";
    EXPECT_EQ(sentence_html("ask `a<b` twice"), "ask <code>a&lt;b</code> twice");
}

std::vector<CertifiedStep> six_minutes() {
    std::vector<CertifiedStep> steps;
    for (std::uint64_t i = 1; i <= 60; ++i)
        steps.push_back({i, 1000 + 6 * static_cast<double>(i), 2, {{device(1), 100}}});
    return steps;
}

TEST(ReportPage, of_minutes_has_minutes_and_the_curves_of_evaluations) {
    const Participation report = participation_of(six_minutes(), {});
    EXPECT_NE(to_text(report).find("samples in 6 min"), std::string::npos) << to_text(report);
    ReportExtras extras;
    for (std::uint64_t step = 10; step <= 60; step += 10)
        for (const char* name : {"evaluation/accuracy", "evaluation/loss"})
            extras.scalars.push_back({1000 + 6 * static_cast<double>(step), step, name, 0.5});
    const std::string page = report_page({"r", "0", "today"}, report, extras);
    for (const char* part : {"loss over minutes",
                             "accuracy in percent over minutes",
                             "loss on held-out data over minutes"})
        EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_EQ(page.find("Steps a day"), std::string::npos);
    // A task without an accuracy tells 0.
    for (Scalar& scalar : extras.scalars) scalar.value = 0;
    EXPECT_EQ(report_page({"r", "0", "today"}, report, extras).find("accuracy"), std::string::npos);
}

TEST(ComparePage, lays_curves_and_run_files_beside_each_other) {
    std::vector<ComparedRun> runs(2);
    for (ComparedRun& run : runs) {
        run.report = participation_of(six_minutes(), {});
        run.why.facts.run.name = "same";
    }
    runs[0].label = "one";
    runs[1].label = "<two>";
    runs[1].why.facts.run.batch.target = 4096;
    const std::string page = compare_page("today", runs);
    EXPECT_NE(page.find("batch.target: 1024 here, 4096 there"), std::string::npos);
    EXPECT_EQ(page.find("<two>"), std::string::npos);
    EXPECT_NE(page.find("class=\"curve s1\""), std::string::npos);
    EXPECT_NE(to_text(runs).find("their run files differ (here: one)"), std::string::npos);
    const auto json = nlohmann::json::parse(to_json(runs));
    EXPECT_EQ(json["runs"].size(), 2u);
    EXPECT_DOUBLE_EQ(json["runs"][0]["loss_at_end"].get<double>(), 2);
    EXPECT_TRUE(json["runs"][0]["best_accuracy"].is_null());
}

}  // namespace
}  // namespace dedloc::monitor
