#include <algorithm>

#include "dedloc/monitor/svg.h"

#include "experiments/paper_swav.h"

namespace dedloc::lab {
namespace {

constexpr double bars_left = 130;
constexpr double bars_right = 660;
constexpr double row_height = 30;

void share_bar(monitor::Svg& svg, double y, double height, double share, const char* colour) {
    svg.rect(bars_left, y, (bars_right - bars_left) * share, height, colour);
}

}  // namespace

std::string paper_swav_svg(const std::vector<PaperSwavBar>& bars) {
    double samples = 1e-9;
    double seconds = 1e-9;
    for (const PaperSwavBar& one : bars) {
        samples = std::max(samples, one.samples_per_s);
        seconds = std::max({seconds, one.exchange_s, one.planned_s});
    }
    const double below = 70 + row_height * static_cast<double>(bars.size()) + 50;
    const double height = below + row_height * static_cast<double>(bars.size()) + 20;
    monitor::Svg svg(760, height, 13);
    svg.text(
        20, 26, "start", "SwAV, ResNet-50: samples a second of all trainers", "font-size=\"16\"");
    svg.text(20, 46, "start", "measured in virtual time, on the real engine");
    svg.add(
        "<text x=\"20\" y=\"{:.1f}\" font-size=\"16\">Exchange of one average: <tspan "
        "fill=\"#cc6677\">measured</tspan>, <tspan fill=\"#888888\">planned</tspan></text>",
        below - 18);
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const PaperSwavBar& one = bars[i];
        const double down = row_height * static_cast<double>(i);
        svg.text(bars_left - 8, 70 + down + 16, "end", one.name);
        share_bar(svg, 70 + down, 22, one.samples_per_s / samples, "#4477aa");
        const double end = bars_left + (bars_right - bars_left) * one.samples_per_s / samples + 6;
        svg.text(end, 70 + down + 16, "start", fmt::format("{:.0f}", one.samples_per_s));
        svg.text(bars_left - 8, below + down + 16, "end", one.name);
        share_bar(svg, below + down, 11, one.exchange_s / seconds, "#cc6677");
        share_bar(svg, below + down + 11, 11, one.planned_s / seconds, "#bbbbbb");
        const double longest = std::max(one.exchange_s, one.planned_s) / seconds;
        svg.text(bars_left + (bars_right - bars_left) * longest + 6,
                 below + down + 16,
                 "start",
                 fmt::format("{:.2f} s", one.exchange_s));
    }
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
