#include "experiments/experts_svg.h"

#include <algorithm>
#include <cmath>

#include "dedloc/monitor/svg.h"

namespace dedloc::lab {
namespace {

constexpr double panel_width = 340;
constexpr double panel_height = 220;
constexpr double margin = 50;

// One panel of curves; x and y are already numbers of the axes.
class Panel {
  public:
    Panel(monitor::Svg& svg, double left, double x_min, double x_max, double y_max)
        : svg_(svg), left_(left), x_min_(x_min), x_max_(x_max), y_max_(y_max) {}

    void frame(const std::string& title, const std::string& x, const std::string& y) {
        svg_.text(left_, 24, "start", title, "font-weight=\"bold\"");
        svg_.add(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" "
            "stroke=\"#888\"/>",
            left_,
            margin,
            panel_width,
            panel_height);
        svg_.text(left_ + panel_width / 2, margin + panel_height + 34, "middle", x);
        svg_.text(left_, 40, "start", y, "fill=\"#555\"");
    }
    void tick_x(double x, const std::string& words) {
        svg_.text(at_x(x), margin + panel_height + 16, "middle", words);
    }
    void tick_y(double y, const std::string& words) {
        svg_.text(left_ - 4, at_y(y) + 4, "end", words);
    }
    void curve(const std::map<double, double>& values,
               const std::string& colour,
               const std::string& name) {
        if (values.empty()) return;
        std::vector<monitor::SvgPoint> points;
        for (const auto& [x, y] : values) points.push_back({at_x(x), at_y(y)});
        svg_.polyline(points, fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour));
        for (const monitor::SvgPoint& point : points) svg_.circle(point, 3, colour);
        svg_.text(points.back().x - 6,
                  points.back().y - 8,
                  "end",
                  name,
                  fmt::format("fill=\"{}\"", colour));
    }

  private:
    double at_x(double x) const { return left_ + panel_width * (x - x_min_) / (x_max_ - x_min_); }
    double at_y(double y) const {
        return margin + panel_height * (1 - std::clamp(y / y_max_, 0.0, 1.0));
    }

    monitor::Svg& svg_;
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
    monitor::Svg svg(2 * panel_width + 3 * margin, panel_height + 2 * margin + 10);
    Panel search(svg, margin, 1.9, 4.1, 900);
    search.frame("Cold beam search, 50 ms links", "nodes", "milliseconds");
    for (const int power : {2, 3, 4}) search.tick_x(power, fmt::format("10^{}", power));
    for (const int ms : {0, 300, 600, 900}) search.tick_y(ms, std::to_string(ms));
    search.curve(over_logarithm(figures.paper_ms), other, "Learning@home");
    search.curve(over_logarithm(figures.search_ms), ours, "dedloc");
    Panel throughput(svg, panel_width + 2 * margin, -10, 210, 1.2);
    throughput.frame("Throughput, 4 layers", "ms of a round trip", "of that without latency");
    for (const int ms : {0, 100, 200}) throughput.tick_x(ms, std::to_string(ms));
    for (const double part : {0.0, 0.5, 1.0}) throughput.tick_y(part, fmt::format("{}", part));
    throughput.curve(figures.chain, other, "one chain");
    throughput.curve(figures.throughput, ours, "64 trainers");
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
