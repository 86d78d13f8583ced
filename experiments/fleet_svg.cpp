#include "experiments/fleet_svg.h"

#include <algorithm>
#include <array>

#include "dedloc/monitor/svg.h"

namespace dedloc::lab {
namespace {

constexpr double fleet_names_width = 210;
constexpr double fleet_panel_width = 190;
constexpr double fleet_bar_width_max = 120;
constexpr double fleet_row_height = 34;
constexpr double fleet_bar_height = 20;
constexpr double fleet_head_height = 64;
constexpr std::array<const char*, 4> fleet_bar_colours = {
    "#4477aa", "#cc6677", "#228833", "#aa8800"};

struct FleetPanel {
    const char* title;
    double (*value)(const FleetLine& line);
    std::string (*words)(double value);
};

constexpr FleetPanel fleet_panels[] = {
    {"held-out accuracy",
     [](const FleetLine& line) { return line.accuracy; },
     [](double value) { return fmt::format("{:.1f} %", 100 * value); }},
    {"hours",
     [](const FleetLine& line) { return line.hours; },
     [](double value) { return fmt::format("{:.2f} h", value); }},
    {"cost",
     [](const FleetLine& line) { return line.usd; },
     [](double value) { return fmt::format("${:.2f}", value); }},
};

void draw_fleet_panel(monitor::Svg& svg,
                      const FleetPanel& panel,
                      double x,
                      const std::vector<FleetLine>& lines) {
    svg.text(x, fleet_head_height - 12, "start", panel.title, "font-weight=\"bold\"");
    double most = 0;
    for (const FleetLine& line : lines) most = std::max(most, panel.value(line));
    if (most <= 0) return;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const double value = panel.value(lines[i]);
        const double y = fleet_head_height + fleet_row_height * static_cast<double>(i);
        const double width = fleet_bar_width_max * value / most;
        svg.rect(x, y, width, fleet_bar_height, fleet_bar_colours[i % fleet_bar_colours.size()]);
        svg.text(x + width + 6, y + fleet_bar_height - 5, "start", panel.words(value));
    }
}

}  // namespace

std::string fleet_svg(const std::vector<FleetLine>& lines, const std::string& dated) {
    const double height =
        fleet_head_height + fleet_row_height * static_cast<double>(lines.size()) + 12;
    monitor::Svg svg(fleet_names_width + fleet_panel_width * std::size(fleet_panels) + 10, height);
    svg.text(12,
             20,
             "start",
             fmt::format("The same training in four ways (virtual time; prices of {})", dated));
    for (std::size_t i = 0; i < lines.size(); ++i)
        svg.text(
            12,
            fleet_head_height + fleet_row_height * static_cast<double>(i) + fleet_bar_height - 5,
            "start",
            lines[i].machines);
    double x = fleet_names_width;
    for (const FleetPanel& panel : fleet_panels) {
        draw_fleet_panel(svg, panel, x, lines);
        x += fleet_panel_width;
    }
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
