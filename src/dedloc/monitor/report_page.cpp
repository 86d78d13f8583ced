#include "dedloc/monitor/report_page.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace dedloc::monitor {

namespace {

constexpr double chart_width = 860;
constexpr double chart_height = 240;
constexpr double left_margin = 64;
constexpr double right_margin = 12;
constexpr double top_margin = 12;
constexpr double bottom_margin = 34;
constexpr std::size_t people_shown = 200;

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
.bar{fill:var(--accent)}.table{overflow-x:auto}table{border-collapse:collapse;width:100%}
td,th{padding:5px 8px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:600}
td:first-child{max-width:40vw;overflow:hidden;text-overflow:ellipsis}
@media(max-width:600px){svg text{font-size:21px}td,th{padding:5px 4px;font-size:.8rem}
.curve{stroke-width:3}td:first-child{max-width:24vw}}
@media print{body{max-width:none}h2{break-after:avoid}svg,tr{break-inside:avoid}}
)";

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

std::string card(const std::string& value, std::string_view label) {
    return fmt::format("<div class=card><b>{}</b><span>{}</span></div>\n", value, label);
}

// Round numbers in between, at most six.
std::vector<double> ticks(double low, double high) {
    const double rough = std::max((high - low) / 5, 1e-12);
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {2.0, 5.0, 10.0})
        if (step < rough) step = power * factor;
    std::vector<double> places;
    for (double at = std::ceil(low / step) * step; at <= high + step * 1e-9; at += step)
        places.push_back(at);
    return places;
}

struct Point {
    double x = 0;
    double y = 0;
};

struct Frame {
    double x_max = 1;
    double y_min = 0;
    double y_max = 1;

    double x(double value) const {
        return left_margin + value / x_max * (chart_width - left_margin - right_margin);
    }
    double y(double value) const {
        const double part = (value - y_min) / (y_max - y_min);
        return chart_height - bottom_margin - part * (chart_height - top_margin - bottom_margin);
    }
};

std::string axes(const Frame& frame) {
    std::string svg;
    for (const double at : ticks(frame.y_min, frame.y_max))
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
                           chart_height - 14,
                           with_units(at));
    return svg;
}

std::string opened(std::string_view label) {
    return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=img aria-label=\"{}\">\n",
                       chart_width,
                       chart_height,
                       label);
}

std::string line_chart(std::string_view label, const std::vector<Point>& points, bool from_zero) {
    if (points.size() < 2) return "<p>Not enough steps for a curve yet.</p>\n";
    Frame frame;
    const auto by_y = [](const Point& a, const Point& b) { return a.y < b.y; };
    frame.y_min = from_zero ? 0 : std::ranges::min_element(points, by_y)->y;
    frame.y_max = std::ranges::max_element(points, by_y)->y;
    if (frame.y_max - frame.y_min < 1e-12) frame.y_max = frame.y_min + 1;
    frame.x_max = std::max(points.back().x, 1e-9);
    std::string path;
    for (const Point& point : points)
        path += fmt::format("{}{:.1f} {:.1f}",
                            path.empty() ? "M" : "L",
                            frame.x(std::max(point.x, 0.0)),
                            frame.y(point.y));
    return opened(label) + axes(frame) + fmt::format("<path class=curve d=\"{}\" />\n", path) +
           "</svg>\n";
}

std::string bar_chart(std::string_view label, const std::vector<std::uint64_t>& values) {
    if (values.empty()) return {};
    Frame frame;
    frame.x_max = static_cast<double>(values.size());
    frame.y_max =
        static_cast<double>(std::max<std::uint64_t>(*std::ranges::max_element(values), 1));
    std::string svg = opened(label) + axes(frame);
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

std::vector<Point> points_of(const Participation& report,
                             const std::function<std::optional<double>(const CurvePoint&)>& value) {
    std::vector<Point> points;
    for (const CurvePoint& point : report.curve)
        if (const auto y = value(point))
            points.push_back({(point.time - report.begin) / 86'400, *y});
    return points;
}

std::string summary(const Participation& report) {
    return "<div class=cards>\n" + card(std::to_string(report.persons.size()), "people") +
           card(std::to_string(report.devices), "devices") +
           card(std::to_string(report.sessions), "sessions") +
           card(time_in_words(report.participation_median_seconds), "median participation") +
           card(time_in_words(report.session_mean_seconds), "mean session") +
           card(time_in_words(report.session_longest_seconds), "longest session") +
           card(with_units(static_cast<double>(report.steps)), "global steps") +
           card(with_units(report.samples), "samples") + "</div>\n";
}

std::string table(const Participation& report) {
    std::string html =
        "<div class=table><table><tr><th>Person</th><th>Samples</th><th>Share</th><th>Devices</th>"
        "<th>Sessions</th><th>Time</th></tr>\n";
    for (std::size_t i = 0; i < std::min(report.persons.size(), people_shown); ++i) {
        const PersonReport& person = report.persons[i];
        html += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape_html(person.name),
            with_units(person.samples),
            report.samples > 0 ? 100 * person.samples / report.samples : 0,
            person.devices,
            person.sessions,
            time_in_words(person.device_seconds));
    }
    html += "</table></div>\n";
    if (report.persons.size() > people_shown)
        html += fmt::format("<p>… and {} more.</p>\n", report.persons.size() - people_shown);
    return html;
}

}  // namespace

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

std::string report_page(const ReportTitle& title, const Participation& report) {
    const auto loss = [](const CurvePoint& point) { return point.loss; };
    const auto devices = [](const CurvePoint& point) { return std::optional(point.devices); };
    std::string html = fmt::format(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
        "<title>{} – report</title><style>{}</style></head><body>\n"
        "<h1>{}</h1><p>Run {} · {:.2f} days · made {}</p>\n",
        escape_html(title.run),
        style,
        escape_html(title.run),
        escape_html(title.run_id),
        report.days(),
        escape_html(title.made_at));
    if (report.steps == 0) return html + "<p>No certified step yet.</p></body></html>\n";
    html += summary(report);
    html += "<h2>Loss</h2><p>Of the peer that kept the log, over days.</p>\n";
    html += line_chart("loss over days", points_of(report, loss), false);
    html += "<h2>Devices at work</h2><p>Whose samples are in each step, over days.</p>\n";
    html += line_chart("contributing devices over days", points_of(report, devices), true);
    html +=
        "<h2>Steps a day</h2><p>Whole days since the first step; the last one is not over.</p>\n" +
        bar_chart("global steps of each day", report.steps_by_day);
    html +=
        "<h2>People</h2><p>Samples are counted from certificates that a majority of voters "
        "signed; times are the log keeper's.</p>\n";
    return html + table(report) + "</body></html>\n";
}

}  // namespace dedloc::monitor
