#include "dedloc/monitor/svg.h"

#include <array>
#include <gtest/gtest.h>

namespace dedloc::monitor {
namespace {

TEST(Svg, words_are_escaped_and_elements_stand_between_its_ends) {
    Svg svg(64, 32);
    svg.text(1, 2, "end", "a < b & c", "fill=\"#555\"");
    const std::array<SvgPoint, 2> points = {SvgPoint{0, 1}, SvgPoint{2.25, 3}};
    svg.polyline(points, "stroke=\"#000\"");
    const std::string drawn = std::move(svg).finish();
    EXPECT_TRUE(
        drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 64 32\""));
    EXPECT_TRUE(drawn.ends_with("</svg>\n"));
    EXPECT_NE(drawn.find(">a &lt; b &amp; c</text>"), std::string::npos) << drawn;
    EXPECT_NE(drawn.find("points=\"0.0,1.0 2.2,3.0 \"/>"), std::string::npos) << drawn;
}

}  // namespace
}  // namespace dedloc::monitor
