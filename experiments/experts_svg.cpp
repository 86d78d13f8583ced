#include "experiments/experts_svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace dedloc::lab {
namespace {

constexpr double panel_width = 340;
constexpr double panel_height = 220;
constexpr double margin = 50;

// One panel of curves; x and y are already numbers of the axes.
class Panel {
  public:
    Panel(double left, double x_min, double x_max, double y_max)
        : left_(left), x_min_(x_min), x_max_(x_max), y_max_(y_max) {}

    std::string frame(const std::string& title, const std::string& x, const std::string& y) const {
        return fmt::format(
            "<text x=\"{0}\" y=\"24\" font-weight=\"bold\">{1}</text>\n"
            "<rect x=\"{0}\" y=\"{2}\" width=\"{3}\" height=\"{4}\" fill=\"none\" "
            "stroke=\"#888\"/>\n"
            "<text x=\"{5}\" y=\"{6}\" text-anchor=\"middle\">{7}</text>\n"
            "<text x=\"{0}\" y=\"40\" fill=\"#555\">{8}</text>\n",
            left_,
            title,
            margin,
            panel_width,
            panel_height,
            left_ + panel_width / 2,
            margin + panel_height + 34,
            x,
            y);
    }
    std::string tick_x(double x, const std::string& text) const {
        return fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                           at_x(x),
                           margin + panel_height + 16,
                           text);
    }
    std::string tick_y(double y, const std::string& text) const {
        return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                           left_ - 4,
                           at_y(y) + 4,
                           text);
    }
    std::string curve(const std::map<double, double>& points,
                      const std::string& colour,
                      const std::string& name) const {
        if (points.empty()) return {};
        std::string line;
        std::string dots;
        for (const auto& [x, y] : points) {
            line += fmt::format("{:.1f},{:.1f} ", at_x(x), at_y(y));
            dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                                at_x(x),
                                at_y(y),
                                colour);
        }
        const auto& [x, y] = *points.rbegin();
        return fmt::format(
                   "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                   line,
                   colour) +
               dots +
               fmt::format(
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" "
                   "fill=\"{}\">{}</text>\n",
                   at_x(x) - 6,
                   at_y(y) - 8,
                   colour,
                   name);
    }

  private:
    double at_x(double x) const { return left_ + panel_width * (x - x_min_) / (x_max_ - x_min_); }
    double at_y(double y) const {
        return margin + panel_height * (1 - std::clamp(y / y_max_, 0.0, 1.0));
    }

    double left_;
    double x_min_;
    double x_max_;
    double y_max_;
};

std::map<double, double> over_logarithm(const std::map<double, double>& points) {
    std::map<double, double> result;
    for (const auto& [x, y] : points) result[std::log10(x)] = y;
    return result;
}

}  // namespace

std::string experts_svg(const ExpertsFigures& figures) {
    const char* ours = "#1b6ca8";
    const char* other = "#c0392b";
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n",
        2 * panel_width + 3 * margin,
        panel_height + 2 * margin + 10);
    const Panel search(margin, 1.9, 4.1, 900);
    svg += search.frame("Cold beam search, 50 ms links", "nodes", "milliseconds");
    for (const int power : {2, 3, 4}) svg += search.tick_x(power, fmt::format("10^{}", power));
    for (const int ms : {0, 300, 600, 900}) svg += search.tick_y(ms, std::to_string(ms));
    svg += search.curve(over_logarithm(figures.paper_ms), other, "Learning@home");
    svg += search.curve(over_logarithm(figures.search_ms), ours, "dedloc");
    const Panel throughput(panel_width + 2 * margin, -10, 210, 1.2);
    svg +=
        throughput.frame("Throughput, 4 layers", "ms of a round trip", "of that without latency");
    for (const int ms : {0, 100, 200}) svg += throughput.tick_x(ms, std::to_string(ms));
    for (const double part : {0.0, 0.5, 1.0})
        svg += throughput.tick_y(part, fmt::format("{}", part));
    svg += throughput.curve(figures.chain, other, "one chain");
    svg += throughput.curve(figures.throughput, ours, "64 trainers");
    return svg + "</svg>\n";
}

}  // namespace dedloc::lab
