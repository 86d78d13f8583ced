// Traces and prices are read strictly, and hours are counted as clouds bill them.

#include "experiments/fleet_data.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace dedloc::lab {
namespace {

constexpr const char* head = "machine,notice_s,gone_s,back_s\n";

std::string text_of(const std::string& name) {
    std::ifstream file(std::string(DEDLOC_TEST_DATA) + "/../experiments/fleet/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(FleetTrace, is_read_by_machine) {
    const auto trace =
        parse_fleet_trace(std::string(head) + "2,10,130,400\n1,20,20,320\n2,500,620,900\n", "t");
    ASSERT_TRUE(trace) << trace.error().message();
    ASSERT_EQ(trace->size(), 3u);
    EXPECT_TRUE((*trace)[0].empty());
    ASSERT_EQ((*trace)[2].size(), 2u);
    EXPECT_EQ((*trace)[2][0].notice, Duration(120s));
    EXPECT_EQ((*trace)[1][0].notice, Duration(0));
    EXPECT_EQ((*trace)[1][0].until, Duration(320s));
}

TEST(FleetTrace, wrong_lines_are_named) {
    for (const char* rows : {"1,2,3\n",
                             "1,2,3,4,5\n",
                             "0,1,2,3\n",
                             "1,5,4,6\n",
                             "1,5,6,6\n",
                             "x,1,2,3\n",
                             "1,-1,2,3\n",
                             "99999,1,2,3\n",
                             "\n"}) {
        const auto trace = parse_fleet_trace(std::string(head) + rows, "t.csv");
        ASSERT_FALSE(trace) << rows;
        EXPECT_NE(trace.error().message().find("t.csv:2:"), std::string::npos);
    }
    EXPECT_FALSE(parse_fleet_trace("1,10,130,400\n", "t"));
    EXPECT_FALSE(parse_fleet_trace(std::string(head) + "1,10,130,400\n1,399,401,500\n", "t"));
}

TEST(FleetPrices, those_of_the_repository_are_whole_and_dated) {
    const auto prices = parse_fleet_prices(text_of("prices.toml"), "prices.toml");
    ASSERT_TRUE(prices) << prices.error().message();
    EXPECT_EQ(prices->dated.size(), 10u);
    EXPECT_LT(prices->fleet.spot, prices->fleet.on_demand);
    EXPECT_GT(prices->large.speed, 1);
    const auto trace = parse_fleet_trace(text_of("spot.csv"), "spot.csv");
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_EQ(trace->size(), 16u);
}

TEST(FleetPrices, what_is_missing_is_said) {
    const auto none = parse_fleet_prices("dated = \"2026-01-01\"\n[fleet]\nspot = 1.0\n", "p");
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("[fleet] needs"), std::string::npos);
    EXPECT_FALSE(parse_fleet_prices("x = 1\n", "p"));
    EXPECT_FALSE(parse_fleet_prices("[", "p"));
}

TEST(PaidHours, a_machine_is_paid_while_it_runs_and_while_it_boots) {
    const std::vector<VirtualAbsence> absences{{.from = 600s, .notice = 120s, .until = 1800s},
                                               {.from = 3000s, .notice = 0s, .until = 9000s}};
    EXPECT_DOUBLE_EQ(paid_hours({}, 7200, 180), 2);
    // Away from 720 to 1620, and from 3000 to the end.
    EXPECT_DOUBLE_EQ(paid_hours(absences, 3600, 180) * 3600, 3600 - 900 - 600);
    EXPECT_DOUBLE_EQ(paid_hours(absences, 700, 180) * 3600, 700);
    // A successor that comes at once boots meanwhile, and is paid from there.
    EXPECT_DOUBLE_EQ(paid_hours({{.from = 100s, .notice = 0s, .until = 150s}}, 3600, 180), 1);
}

}  // namespace
}  // namespace dedloc::lab
