#include "experiments/light_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dedloc/monitor/svg.h"

namespace dedloc::lab {
namespace {

constexpr double light_left = 60;
constexpr double light_top = 44;
constexpr double light_chart_width = 560;
constexpr double light_chart_height = 300;
constexpr double bytes_least = 1e4;
constexpr double bytes_most = 1e9;
constexpr double accuracy_least = 0.5;
constexpr double accuracy_most = 0.9;
constexpr std::array<const char*, 9> light_colours = {"#4477aa",
                                                      "#228833",
                                                      "#cc6677",
                                                      "#aa8800",
                                                      "#aa3377",
                                                      "#66ccee",
                                                      "#bbbbbb",
                                                      "#000000",
                                                      "#ee8866"};

double x_of(double bytes) {
    const double place = std::log10(std::max(bytes, bytes_least) / bytes_least) /
                         std::log10(bytes_most / bytes_least);
    return light_left + light_chart_width * std::min(place, 1.0);
}

double y_of(double accuracy) {
    const double place = (accuracy - accuracy_least) / (accuracy_most - accuracy_least);
    return light_top + light_chart_height * (1 - std::clamp(place, 0.0, 1.0));
}

void axes(monitor::Svg& svg) {
    for (double bytes = bytes_least; bytes <= bytes_most * 1.01; bytes *= 10) {
        svg.line(x_of(bytes),
                 light_top,
                 x_of(bytes),
                 light_top + light_chart_height,
                 "stroke=\"#dddddd\"");
        const std::string words = bytes < 1e6 ? fmt::format("{:.0f} kB", bytes / 1e3)
                                              : fmt::format("{:.0f} MB", bytes / 1e6);
        svg.text(x_of(bytes), light_top + light_chart_height + 18, "middle", words);
    }
    for (int percent = 50; percent <= 90; percent += 10) {
        const double y = y_of(percent / 100.0);
        svg.line(light_left, y, light_left + light_chart_width, y, "stroke=\"#dddddd\"");
        svg.text(light_left - 8, y + 4, "end", fmt::format("{} %", percent));
    }
    svg.text(
        light_left, 20, "start", "Held-out accuracy over bytes sent by one peer (Fashion-MNIST)");
}

}  // namespace

std::string light_svg(const std::vector<LightLine>& lines) {
    monitor::Svg svg(light_left + light_chart_width + 190, light_top + light_chart_height + 40);
    axes(svg);
    double legend_y = light_top + 10;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"1.8\"",
                                               light_colours[i % light_colours.size()]);
        std::vector<monitor::SvgPoint> points;
        for (const auto& [bytes, accuracy] : lines[i].accuracies)
            points.push_back({x_of(bytes), y_of(accuracy)});
        svg.polyline(points, stroke);
        const double x = light_left + light_chart_width + 16;
        svg.line(x, legend_y - 4, x + 24, legend_y - 4, stroke);
        std::string name = lines[i].mode;
        const std::string peers = fmt::format("_{}", lines[i].peers);
        if (name.ends_with(peers)) name.resize(name.size() - peers.size());
        svg.text(x + 30, legend_y, "start", fmt::format("{}, {} peers", name, lines[i].peers));
        legend_y += 20;
    }
    return std::move(svg).finish();
}

}  // namespace dedloc::lab
