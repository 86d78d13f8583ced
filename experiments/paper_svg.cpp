#include "experiments/paper_svg.h"

#include <algorithm>
#include <array>

#include "dedloc/monitor/svg.h"

namespace dedloc::lab {
namespace {

constexpr double width = 760;
constexpr double left = 130;
constexpr double right = 730;
constexpr double bars_top = 70;
constexpr double bar_height = 22;
constexpr double bar_step = 34;
constexpr double chart_height = 260;
constexpr int ticks = 5;
constexpr std::array<const char*, 7> colours = {
    "#4477aa", "#cc6677", "#228833", "#aa8800", "#885599", "#222222", "#33aabb"};

// A round number at or above `value`: few digits times a power of ten.
double round_up(double value) {
    double power = 1;
    while (power * 10 <= value) power *= 10;
    while (power > value) power /= 10;
    for (const double factor : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0})
        if (power * factor >= value) return power * factor;
    return value;
}

void bars(monitor::Svg& svg, const std::vector<PaperLine>& lines) {
    double longest = 0;
    for (const PaperLine& each : lines) longest = std::max(longest, each.step_s);
    const double axis = round_up(longest);
    const double bottom = bars_top + bar_step * static_cast<double>(lines.size());
    const auto x_of = [axis](double seconds) { return left + (right - left) * seconds / axis; };
    for (int tick = 0; tick <= ticks; ++tick) {
        const double seconds = axis * tick / ticks;
        svg.line(x_of(seconds), bars_top - 6, x_of(seconds), bottom, "stroke=\"#dddddd\"");
        svg.text(x_of(seconds), bottom + 16, "middle", fmt::format("{:g} s", seconds));
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const PaperLine& each = lines[i];
        const double y = bars_top + bar_step * static_cast<double>(i);
        const double computing = each.step_s - each.averaging_s;
        svg.text(left - 8, y + 16, "end", each.name);
        for (const auto& [from, to, colour] :
             {std::tuple{0.0, computing, "#4477aa"}, std::tuple{computing, each.step_s, "#cc6677"}})
            svg.rect(x_of(from), y, x_of(to) - x_of(from), bar_height, colour);
        const bool inside = x_of(each.step_s) > right - 50;
        svg.text(x_of(each.step_s) + (inside ? -6 : 6),
                 y + 16,
                 inside ? "end" : "start",
                 fmt::format("{:.1f}", each.step_s),
                 inside ? "fill=\"white\"" : "");
    }
}

void chart(monitor::Svg& svg, const std::vector<PaperLine>& lines, double top) {
    double time = 0;
    double loss = 0;
    for (const PaperLine& each : lines)
        for (const PaperLine::Point& point : each.points) {
            time = std::max(time, point.at_s);
            loss = std::max(loss, point.loss);
        }
    if (time <= 0 || loss <= 0) return;
    time = round_up(time);
    loss = round_up(loss);
    const double bottom = top + chart_height;
    const auto x_of = [time](double at) { return left + (right - left) * at / time; };
    const auto y_of = [&](double value) { return bottom - chart_height * value / loss; };
    for (int tick = 0; tick <= ticks; ++tick) {
        const double at = time * tick / ticks;
        const double value = loss * tick / ticks;
        svg.line(left, y_of(value), right, y_of(value), "stroke=\"#dddddd\"");
        svg.text(left - 8, y_of(value) + 4, "end", fmt::format("{:g}", value));
        svg.text(x_of(at), bottom + 18, "middle", fmt::format("{:g} s", at));
    }
    double legend = top + chart_height - 18 * static_cast<double>(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (lines[i].points.empty()) continue;
        const char* colour = colours[i % colours.size()];
        std::vector<monitor::SvgPoint> points;
        for (const PaperLine::Point& point : lines[i].points)
            points.push_back({x_of(point.at_s), y_of(point.loss)});
        const std::string style = fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour);
        svg.polyline(points, style);
        svg.line(left + 12, legend - 4, left + 36, legend - 4, style);
        svg.text(left + 42, legend, "start", lines[i].name);
        legend += 18;
    }
}

}  // namespace

std::string paper_svg(const std::vector<PaperLine>& lines) {
    const double bars_bottom = bars_top + bar_step * static_cast<double>(lines.size());
    const double chart_top = bars_bottom + 80;
    monitor::Svg svg(width, chart_top + chart_height + 50, 13);
    svg.add(
        "<text x=\"20\" y=\"26\" font-size=\"16\">One global step of ALBERT-large, 16 "
        "trainers: <tspan fill=\"#4477aa\">computing</tspan>, <tspan "
        "fill=\"#cc6677\">waiting for the average</tspan></text>");
    svg.text(20, 46, "start", "measured in virtual time, on the real engine");
    bars(svg, lines);
    svg.text(20, chart_top - 18, "start", "Loss against time", "font-size=\"16\"");
    chart(svg, lines, chart_top);
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
