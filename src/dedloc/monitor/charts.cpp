#include "dedloc/monitor/charts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace dedloc::monitor {

namespace {

constexpr double chart_width = 860;
constexpr double chart_height = 240;
constexpr double left_margin = 64;
constexpr double right_margin = 12;
constexpr double top_margin = 12;
constexpr double bottom_margin = 46;

constexpr std::string_view style = R"(
:root{--ink:#1c2430;--soft:#5c6878;--line:#d9dee6;--back:#fff;--card:#f5f7fa;--accent:#2166c9}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#343c48;--back:#14181e;
--card:#1d232b;--accent:#6ea8ff}}
*{box-sizing:border-box}body{margin:0 auto;max-width:920px;padding:24px 16px;background:var(--back);
color:var(--ink);font:16px/1.5 system-ui,sans-serif}h1{font-size:1.6rem;margin:0}
h2{font-size:1.1rem;margin:32px 0 8px}p{color:var(--soft);margin:4px 0 16px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px}
.card{background:var(--card);border-radius:8px;padding:10px 14px}
.card b{display:block;font-size:1.35rem}.card span{color:var(--soft);font-size:.85rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:12px}
.grid{stroke:var(--line)}.curve{fill:none;stroke:var(--accent);stroke-width:2}
.bar{fill:var(--accent)}
.s1{stroke:#d9730d}.s2{stroke:#2a9d5c}.s3{stroke:#a347ba}.s4{stroke:#c43b4f}.s5{stroke:#7a7f1f}
.key{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 8px;font-size:.85rem}
.key i{display:inline-block;width:18px;border-top:3px solid var(--accent);margin-right:6px;
vertical-align:middle}.key .k1{border-color:#d9730d}.key .k2{border-color:#2a9d5c}
.key .k3{border-color:#a347ba}.key .k4{border-color:#c43b4f}.key .k5{border-color:#7a7f1f}
.part{background:var(--card)}.part b{display:block;height:12px;background:var(--accent)}
code{background:var(--card);padding:1px 4px;border-radius:4px}
li{margin:4px 0}.table{overflow-x:auto}table{border-collapse:collapse;width:100%}
td,th{padding:5px 8px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:600}
td:first-child{max-width:40vw;overflow:hidden;text-overflow:ellipsis}
@media(max-width:600px){svg text{font-size:21px}td,th{padding:5px 4px;font-size:.8rem}
.curve{stroke-width:3}td:first-child{max-width:24vw}}
@media print{body{max-width:none}h2{break-after:avoid}svg,tr{break-inside:avoid}}
)";

// Round numbers in between, at most six; whole ones where there are no others.
std::vector<double> ticks(double low, double high, bool whole = false) {
    const double rough = std::max((high - low) / 5, 1e-12);
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {2.0, 5.0, 10.0})
        if (step < rough) step = power * factor;
    if (whole) step = std::max(step, 1.0);
    std::vector<double> places;
    for (double at = std::ceil(low / step) * step; at <= high + step * 1e-9; at += step)
        places.push_back(at);
    return places;
}

struct Frame {
    double x_max = 1;
    double y_min = 0;
    double y_max = 1;
    bool counts = false;  // nothing lies between two whole numbers of y

    double x(double value) const {
        return left_margin + value / x_max * (chart_width - left_margin - right_margin);
    }
    double y(double value) const {
        const double part = (value - y_min) / (y_max - y_min);
        return chart_height - bottom_margin - part * (chart_height - top_margin - bottom_margin);
    }
};

std::string axes(const Frame& frame, std::string_view axis) {
    std::string svg;
    for (const double at : ticks(frame.y_min, frame.y_max, frame.counts))
        svg += fmt::format(
            "<line class=grid x1={:.0f} x2={:.0f} y1={:.1f} y2={:.1f} />"
            "<text x={:.0f} y={:.1f} text-anchor=end>{}</text>\n",
            left_margin,
            chart_width - right_margin,
            frame.y(at),
            frame.y(at),
            left_margin - 8,
            frame.y(at) + 4,
            with_units(at));
    for (const double at : ticks(0, frame.x_max))
        svg += fmt::format("<text x={:.1f} y={:.0f} text-anchor=middle>{}</text>\n",
                           frame.x(at),
                           chart_height - 26,
                           with_units(at));
    svg += fmt::format("<text x={:.0f} y={:.0f} text-anchor=end>{}</text>\n",
                       chart_width - right_margin,
                       chart_height - 6,
                       axis);
    return svg;
}

std::string opened(std::string_view label) {
    return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=img aria-label=\"{}\">\n",
                       chart_width,
                       chart_height,
                       escape_html(label));
}

// Nothing: no series has two points.
std::optional<Frame> frame_around(const std::vector<ChartSeries>& series, bool from_zero) {
    Frame frame;
    bool any = false;
    for (const ChartSeries& one : series) {
        if (one.points.size() < 2) continue;
        for (const ChartPoint& point : one.points) {
            if (!any) frame = {.x_max = point.x, .y_min = point.y, .y_max = point.y};
            any = true;
            frame.x_max = std::max(frame.x_max, point.x);
            frame.y_min = std::min(frame.y_min, point.y);
            frame.y_max = std::max(frame.y_max, point.y);
        }
    }
    if (!any) return std::nullopt;
    if (from_zero) frame.y_min = 0;
    frame.counts = from_zero;
    if (frame.y_max - frame.y_min < 1e-12) frame.y_max = frame.y_min + 1;
    frame.x_max = std::max(frame.x_max, 1e-9);
    return frame;
}

std::string curve(const Frame& frame, const ChartSeries& series, std::size_t number) {
    std::string path;
    for (const ChartPoint& point : series.points)
        path += fmt::format("{}{:.1f} {:.1f}",
                            path.empty() ? "M" : "L",
                            frame.x(std::max(point.x, 0.0)),
                            frame.y(point.y));
    return fmt::format("<path class=\"curve s{}\" d=\"{}\" />\n", number, path);
}

std::string key_of(const std::vector<ChartSeries>& series) {
    std::string html = "<div class=key>";
    for (std::size_t i = 0; i < series.size(); ++i)
        html += fmt::format("<span><i class=k{}></i>{}</span>", i, escape_html(series[i].name));
    return html + "</div>\n";
}

}  // namespace

TimeUnit time_unit_for(double seconds) {
    if (seconds >= 2 * 86'400) return {"days", 86'400};
    if (seconds >= 2 * 3600) return {"hours", 3600};
    if (seconds >= 2 * 60) return {"minutes", 60};
    return {"seconds", 1};
}

std::string line_chart(std::string_view label,
                       std::string_view axis,
                       const std::vector<ChartSeries>& series,
                       bool from_zero) {
    const auto frame = frame_around(series, from_zero);
    if (!frame) return "<p>Not enough points for a curve yet.</p>\n";
    std::string html = series.size() > 1 ? key_of(series) : std::string();
    html += opened(fmt::format("{} over {}", label, axis)) + axes(*frame, axis);
    for (std::size_t i = 0; i < series.size(); ++i)
        if (series[i].points.size() >= 2) html += curve(*frame, series[i], i % chart_series_max);
    return html + "</svg>\n";
}

std::string bar_chart(std::string_view label, const std::vector<std::uint64_t>& values) {
    if (values.empty()) return {};
    Frame frame{.counts = true};
    frame.x_max = static_cast<double>(values.size());
    frame.y_max =
        static_cast<double>(std::max<std::uint64_t>(*std::ranges::max_element(values), 1));
    std::string svg = opened(label) + axes(frame, "days");
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double begin = frame.x(static_cast<double>(i) + 0.1);
        const double end = frame.x(static_cast<double>(i) + 0.9);
        const double top = frame.y(static_cast<double>(values[i]));
        svg += fmt::format("<rect class=bar x={:.1f} y={:.1f} width={:.1f} height={:.1f} />\n",
                           begin,
                           top,
                           end - begin,
                           frame.y(0) - top);
    }
    return svg + "</svg>\n";
}

std::string with_units(double value) {
    const double size = std::abs(value);
    if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
    if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
    if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
    return fmt::format("{:.4g}", value);
}

std::string time_in_words(double seconds) {
    if (seconds >= 2 * 86'400) return fmt::format("{:.1f} days", seconds / 86'400);
    if (seconds >= 3600) return fmt::format("{:.1f} h", seconds / 3600);
    if (seconds >= 60) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.0f} s", seconds);
}

std::string escape_html(std::string_view text) {
    std::string out;
    for (const char letter : text) {
        switch (letter) {
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '&':
                out += "&amp;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += static_cast<unsigned char>(letter) < 32 || letter == 127 ? '?' : letter;
        }
    }
    return out;
}

std::string sentence_html(std::string_view text) {
    std::string out = escape_html(text);
    for (bool begins = true;; begins = !begins) {
        const std::size_t at = out.find('`');
        if (at == std::string::npos) return out;
        out.replace(at, 1, begins ? "<code>" : "</code>");
    }
}

std::string page_begin(std::string_view title) {
    return fmt::format(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
        "<title>{}</title><style>{}</style></head><body>\n",
        escape_html(title),
        style);
}

}  // namespace dedloc::monitor
