#include "dedloc/monitor/svg.h"

#include "dedloc/monitor/charts.h"

namespace dedloc::monitor {

Svg::Svg(double width, double height, double font_size, std::string_view font) {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
        R"(height="{1:.0f}" font-family="{2}" font-size="{3:g}">)",
        width,
        height,
        font,
        font_size);
    add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
}

void Svg::text(
    double x, double y, std::string_view anchor, std::string_view words, std::string_view style) {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" {}>{}</text>)",
        x,
        y,
        anchor,
        style,
        escape_html(words));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2, y2, style);
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill) {
    add(R"(<rect x="{:.1f}" y="{:.2f}" width="{:.1f}" height="{:.2f}" fill="{}"/>)",
        x,
        y,
        width,
        height,
        fill);
}

void Svg::polyline(std::span<const SvgPoint> points, std::string_view style) {
    std::string list;
    for (const SvgPoint& point : points)
        fmt::format_to(std::back_inserter(list), "{:.1f},{:.1f} ", point.x, point.y);
    add(R"(<polyline fill="none" {} points="{}"/>)", style, list);
}

void Svg::circle(const SvgPoint& centre, double radius, std::string_view fill) {
    add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" fill="{}"/>)",
        centre.x,
        centre.y,
        radius,
        fill);
}

std::string Svg::finish() && { return std::move(body_) + "</svg>\n"; }

}  // namespace dedloc::monitor
