#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "experiments/paper_swav.h"

namespace dedloc::lab {
namespace {

using SvgOut = std::back_insert_iterator<std::string>;

constexpr double bars_left = 130;
constexpr double bars_right = 660;
constexpr double row_height = 30;

void swav_label(SvgOut out, double x, double y, const char* anchor, const std::string& words) {
    fmt::format_to(
        out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

void bar(SvgOut out, double y, double height, double share, const char* colour) {
    fmt::format_to(out,
                   "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n",
                   bars_left,
                   y,
                   (bars_right - bars_left) * share,
                   height,
                   colour);
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
    std::string svg;
    const SvgOut out = std::back_inserter(svg);
    fmt::format_to(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{0:.0f}\" "
                   "viewBox=\"0 0 760 {0:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
                   "<rect width=\"760\" height=\"{0:.0f}\" fill=\"white\"/>\n"
                   "<text x=\"20\" y=\"26\" font-size=\"16\">SwAV, ResNet-50: samples a second of "
                   "all trainers</text>\n",
                   height);
    swav_label(out, 20, 46, "start", "measured in virtual time, on the real engine");
    fmt::format_to(out,
                   "<text x=\"20\" y=\"{:.1f}\" font-size=\"16\">Exchange of one average: <tspan "
                   "fill=\"#cc6677\">measured</tspan>, <tspan fill=\"#888888\">planned</tspan>"
                   "</text>\n",
                   below - 18);
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const PaperSwavBar& one = bars[i];
        const double down = row_height * static_cast<double>(i);
        swav_label(out, bars_left - 8, 70 + down + 16, "end", one.name);
        bar(out, 70 + down, 22, one.samples_per_s / samples, "#4477aa");
        const double end = bars_left + (bars_right - bars_left) * one.samples_per_s / samples + 6;
        swav_label(out, end, 70 + down + 16, "start", fmt::format("{:.0f}", one.samples_per_s));
        swav_label(out, bars_left - 8, below + down + 16, "end", one.name);
        bar(out, below + down, 11, one.exchange_s / seconds, "#cc6677");
        bar(out, below + down + 11, 11, one.planned_s / seconds, "#bbbbbb");
        const double longest = std::max(one.exchange_s, one.planned_s) / seconds;
        swav_label(out,
                   bars_left + (bars_right - bars_left) * longest + 6,
                   below + down + 16,
                   "start",
                   fmt::format("{:.2f} s", one.exchange_s));
    }
    fmt::format_to(out, "</svg>\n");
    return svg;
}

}  // namespace dedloc::lab
