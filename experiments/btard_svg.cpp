#include "experiments/btard_svg.h"

#include <algorithm>
#include <array>

#include "dedloc/monitor/svg.h"

namespace dedloc::lab {
namespace {

constexpr double panel_width = 330;
constexpr double panel_height = 190;
constexpr double margin_left = 46;
constexpr double margin_top = 64;
constexpr double gap = 44;
constexpr std::size_t columns = 2;
constexpr std::array<const char*, 4> line_colours = {"#cc6677", "#4477aa", "#aa8800", "#228833"};
constexpr std::array<const char*, 4> dashes = {"", "", "6 3", "2 3"};

struct Panel {
    double x = 0;
    double y = 0;
    double steps = 1;
    double x_of(double step) const { return x + panel_width * step / steps; }
    double y_of(double accuracy) const { return y + panel_height * (1 - accuracy); }
};

std::string stroke_of(BtardReducer reducer) {
    const auto index = static_cast<std::size_t>(reducer);
    return fmt::format("stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\"",
                       line_colours[index],
                       dashes[index]);
}

void grid_of(monitor::Svg& svg, const Panel& panel, const std::string& title, double attack_from) {
    svg.text(panel.x, panel.y - 8, "start", title);
    for (const double accuracy : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
        svg.line(panel.x,
                 panel.y_of(accuracy),
                 panel.x + panel_width,
                 panel.y_of(accuracy),
                 "stroke=\"#dddddd\"");
        svg.text(panel.x - 6, panel.y_of(accuracy) + 4, "end", fmt::format("{:.1f}", accuracy));
    }
    for (double step = 0; step <= panel.steps; step += 100)
        svg.text(
            panel.x_of(step), panel.y + panel_height + 16, "middle", fmt::format("{:.0f}", step));
    svg.line(panel.x_of(attack_from),
             panel.y,
             panel.x_of(attack_from),
             panel.y + panel_height,
             "stroke=\"#888888\" stroke-dasharray=\"3 3\"");
}

void draw(monitor::Svg& svg, const Panel& panel, const BtardRow& row) {
    std::vector<monitor::SvgPoint> points;
    for (const auto& [step, accuracy] : row.accuracy)
        points.push_back({panel.x_of(static_cast<double>(step)), panel.y_of(accuracy)});
    svg.polyline(points, stroke_of(row.reducer));
}

void legend(monitor::Svg& svg, double y) {
    double x = margin_left;
    for (const BtardReducer reducer : btard_reducers) {
        svg.line(x, y - 4, x + 26, y - 4, stroke_of(reducer));
        std::string name(name_of(reducer));
        std::ranges::replace(name, '_', ' ');
        svg.text(x + 32, y, "start", name);
        x += 150;
    }
}

}  // namespace

std::string btard_svg(const std::vector<BtardRow>& rows, const BtardCommand& command) {
    std::vector<Attack> shown;
    for (const BtardRow& row : rows)
        if (std::ranges::find(shown, row.attack) == shown.end()) shown.push_back(row.attack);
    const std::size_t lines = (shown.size() + columns - 1) / columns;
    const double width = margin_left + columns * (panel_width + gap + 20);
    const double height = margin_top + static_cast<double>(lines) * (panel_height + gap + 10) + 10;
    monitor::Svg svg(width, height);
    svg.text(margin_left,
             20,
             "start",
             fmt::format("Held-out accuracy over steps; 7 of 16 peers attack from step {} on",
                         command.attack_from));
    legend(svg, 40);
    for (std::size_t i = 0; i < shown.size(); ++i) {
        Panel panel;
        panel.x = margin_left + static_cast<double>(i % columns) * (panel_width + gap + 20);
        panel.y = margin_top + static_cast<double>(i / columns) * (panel_height + gap + 10) + 10;
        panel.steps = static_cast<double>(std::max<std::uint64_t>(command.steps, 1));
        std::string title(name_of(shown[i]));
        std::ranges::replace(title, '_', ' ');
        grid_of(svg, panel, title, static_cast<double>(command.attack_from));
        for (const BtardRow& row : rows)
            if (row.attack == shown[i]) draw(svg, panel, row);
    }
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
