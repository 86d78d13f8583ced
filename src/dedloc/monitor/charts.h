// Charts of reports as SVG, and the words of their numbers. Colours and sizes are the page's style.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/time.h"

namespace dedloc::monitor {

inline constexpr std::size_t chart_series_max = 6;  // colours there are

struct ChartPoint {
    double x = 0;
    double y = 0;
};

// A curve; the name is shown where there are several.
struct ChartSeries {
    std::string name;
    std::vector<ChartPoint> points;
};

// Time as people measure so long a while: seconds, minutes, hours or days.
struct TimeUnit {
    std::string_view name;  // "minutes"
    double seconds = 1;
};
TimeUnit time_unit_for(double seconds);

// `axis`: of x ("minutes", "global steps"); `from_zero`: they are counts. Two points make a curve.
std::string line_chart(std::string_view label,
                       std::string_view axis,
                       const std::vector<ChartSeries>& series,
                       bool from_zero);
std::string bar_chart(std::string_view label, const std::vector<std::uint64_t>& values);

// "12.3k"; "3.5 h".
std::string with_units(double value);
std::string time_in_words(double seconds);

// Text as HTML shows it, in attributes too.
std::string escape_html(std::string_view text);

// The same, of our own sentences, whose `commands` stand in backticks.
std::string sentence_html(std::string_view text);

// From the doctype to the page's title in its body; ends with "</body></html>".
std::string page_begin(std::string_view title);

}  // namespace dedloc::monitor
