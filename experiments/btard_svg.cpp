#include "experiments/btard_svg.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>

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

using SvgOut = std::back_insert_iterator<std::string>;

struct Panel {
    double x = 0;
    double y = 0;
    double steps = 1;
    double x_of(double step) const { return x + panel_width * step / steps; }
    double y_of(double accuracy) const { return y + panel_height * (1 - accuracy); }
};

void label(SvgOut out, double x, double y, const char* anchor, const std::string& words) {
    fmt::format_to(
        out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

void grid_of(SvgOut out, const Panel& panel, const std::string& title, double attack_from) {
    label(out, panel.x, panel.y - 8, "start", title);
    for (const double accuracy : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
        fmt::format_to(out,
                       "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
                       "stroke=\"#dddddd\"/>\n",
                       panel.x,
                       panel.y_of(accuracy),
                       panel.x + panel_width,
                       panel.y_of(accuracy));
        label(out, panel.x - 6, panel.y_of(accuracy) + 4, "end", fmt::format("{:.1f}", accuracy));
    }
    for (double step = 0; step <= panel.steps; step += 100)
        label(out,
              panel.x_of(step),
              panel.y + panel_height + 16,
              "middle",
              fmt::format("{:.0f}", step));
    fmt::format_to(out,
                   "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
                   "stroke=\"#888888\" stroke-dasharray=\"3 3\"/>\n",
                   panel.x_of(attack_from),
                   panel.y,
                   panel.y + panel_height);
}

void draw(SvgOut out, const Panel& panel, const BtardRow& row) {
    const auto index = static_cast<std::size_t>(row.reducer);
    fmt::format_to(out,
                   "<polyline fill=\"none\" stroke-width=\"1.8\" stroke=\"{}\" "
                   "stroke-dasharray=\"{}\" points=\"",
                   line_colours[index],
                   dashes[index]);
    for (const auto& [step, accuracy] : row.accuracy)
        fmt::format_to(
            out, "{:.1f},{:.1f} ", panel.x_of(static_cast<double>(step)), panel.y_of(accuracy));
    fmt::format_to(out, "\"/>\n");
}

void legend(SvgOut out, double y) {
    double x = margin_left;
    for (const BtardReducer reducer : btard_reducers) {
        const auto index = static_cast<std::size_t>(reducer);
        fmt::format_to(out,
                       "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" "
                       "stroke=\"{3}\" stroke-width=\"2\" stroke-dasharray=\"{4}\"/>\n",
                       x,
                       x + 26,
                       y - 4,
                       line_colours[index],
                       dashes[index]);
        std::string name(name_of(reducer));
        std::ranges::replace(name, '_', ' ');
        label(out, x + 32, y, "start", name);
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
    std::string svg;
    const SvgOut out = std::back_inserter(svg);
    fmt::format_to(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                   "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
                   "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                   width,
                   height);
    label(out,
          margin_left,
          20,
          "start",
          fmt::format("Held-out accuracy over steps; 7 of 16 peers attack from step {} on",
                      command.attack_from));
    legend(out, 40);
    for (std::size_t i = 0; i < shown.size(); ++i) {
        Panel panel;
        panel.x = margin_left + static_cast<double>(i % columns) * (panel_width + gap + 20);
        panel.y = margin_top + static_cast<double>(i / columns) * (panel_height + gap + 10) + 10;
        panel.steps = static_cast<double>(std::max<std::uint64_t>(command.steps, 1));
        std::string title(name_of(shown[i]));
        std::ranges::replace(title, '_', ' ');
        grid_of(out, panel, title, static_cast<double>(command.attack_from));
        for (const BtardRow& row : rows)
            if (row.attack == shown[i]) draw(out, panel, row);
    }
    svg += "</svg>\n";
    return svg;
}

}  // namespace dedloc::lab
