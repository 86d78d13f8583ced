#include "experiments/paper_swav.h"

#include <gtest/gtest.h>

#include "experiments/paper_setups.h"

namespace dedloc::lab {
namespace {

TEST(PaperSwav, draws_bars_as_long_as_what_was_measured) {
    const std::string svg = paper_swav_svg(
        {{.name = "server", .samples_per_s = 700, .exchange_s = 1, .planned_s = 0.5},
         {.name = "hybrid", .samples_per_s = 1400, .exchange_s = 2, .planned_s = 2}});
    for (const char* shown : {">server<", ">hybrid<", ">1400<", ">2.00 s<"})
        EXPECT_NE(svg.find(shown), std::string::npos) << shown;
    // All of the width, and half of it: samples of both, then the exchanges.
    for (const char* bar : {"width=\"530.0\" height=\"22.00\"",
                            "width=\"265.0\" height=\"22.00\"",
                            "width=\"530.0\" height=\"11.00\"",
                            "width=\"132.5\" height=\"11.00\""})
        EXPECT_NE(svg.find(bar), std::string::npos) << bar;
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(PaperSwav, plans_exchanges_of_its_own_vector) {
    const PaperSetup two{.name = "two",
                         .trainers = {VirtualLine::both_ways(1e6), VirtualLine::both_ways(1e6)}};
    // Each sends and gets half of it, twice, at two bytes a number.
    EXPECT_NEAR(exchange_s_predicted(two, 1'000'000), 2.0, 1e-3);
}

}  // namespace
}  // namespace dedloc::lab
