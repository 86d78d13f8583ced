#include "dedloc/monitor/report_page.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <functional>

#include "dedloc/monitor/charts.h"
#include "dedloc/planner/explanation.h"

namespace dedloc::monitor {

namespace {

constexpr std::size_t people_shown = 200;

std::string card(const std::string& value, std::string_view label) {
    return fmt::format("<div class=card><b>{}</b><span>{}</span></div>\n", value, label);
}

using PointValue = std::function<std::optional<double>(const CurvePoint&)>;

std::vector<ChartPoint> points_of(const Participation& report,
                                  const TimeUnit& unit,
                                  const PointValue& value) {
    std::vector<ChartPoint> points;
    for (const CurvePoint& point : report.curve)
        if (const auto y = value(point))
            points.push_back({(point.time - report.begin) / unit.seconds, *y});
    return points;
}

// Takes the scalars of one name.
std::vector<ChartPoint> points_of(const std::vector<Scalar>& scalars,
                                  std::string_view name,
                                  const Participation& report,
                                  const TimeUnit& unit,
                                  double factor) {
    std::vector<ChartPoint> points;
    for (const Scalar& scalar : scalars)
        if (scalar.name == name)
            points.push_back(
                {std::max(0.0, scalar.time - report.begin) / unit.seconds, factor * scalar.value});
    return points;
}

// Curves of what this peer measured; nothing where it measured nothing. Tasks without an accuracy
// have none, or 0 throughout.
std::string evaluation(const ReportExtras& extras,
                       const Participation& report,
                       const TimeUnit& unit) {
    const auto accuracy =
        points_of(extras.scalars, "evaluation/accuracy", report, unit, /*factor=*/100);
    const auto loss = points_of(extras.scalars, "evaluation/loss", report, unit, /*factor=*/1);
    std::string html;
    if (std::ranges::any_of(accuracy, [](const ChartPoint& point) { return point.y > 0; }))
        html +=
            "<h2>Accuracy</h2><p>On held-out data, in percent, where this peer measured "
            "it.</p>\n" +
            line_chart("accuracy in percent", unit.name, {{"accuracy", accuracy}}, false);
    if (!loss.empty())
        html += "<h2>Loss on held-out data</h2><p>Where this peer measured it.</p>\n" +
                line_chart("loss on held-out data", unit.name, {{"loss", loss}}, false);
    return html;
}

std::string summary(const Participation& report) {
    const auto count = [](std::uint64_t number, const char* one, const char* more) {
        return card(std::to_string(number), number == 1 ? one : more);
    };
    return "<div class=cards>\n" + count(report.persons.size(), "person", "people") +
           count(report.devices, "device", "devices") +
           count(report.sessions, "session", "sessions") +
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

std::string part_row(std::string_view name, double seconds, double step_s) {
    const double percent = step_s > 0 ? 100 * seconds / step_s : 0;
    return fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.0f} %</td><td style=\"width:45%\"><div class=part><b "
        "style=\"width:{:.1f}%\"></b></div></td></tr>\n",
        name,
        planner::duration_text(seconds),
        percent,
        percent);
}

std::string time_of_a_step(const Why& why) {
    const StepParts& parts = why.facts.parts;
    if (why.facts.steps == 0) return {};
    std::string html = fmt::format(
        "<h2>Where the time of a step goes</h2><p>Means of the last {} steps, as this peer saw "
        "them: {} each.</p>\n<div class=table><table>\n",
        why.facts.steps,
        planner::duration_text(parts.sum()));
    for (const auto& [name, seconds] :
         {std::pair<std::string_view, double>{"computing", parts.computing_s},
          {"waiting", parts.waiting_s},
          {"averaging", parts.averaging_s},
          {"applying", parts.applying_s}})
        html += part_row(name, seconds, parts.sum());
    html += "</table></div>\n";
    for (std::string finding : why.findings) {
        finding.front() =
            static_cast<char>(std::toupper(static_cast<unsigned char>(finding.front())));
        html += "<p>" + sentence_html(finding) + ".</p>\n";
    }
    if (why.advice.empty()) return html;
    html += "<p>What would help, as far as can be predicted:</p><ul>\n";
    for (const Advice& advice : why.advice) html += "<li>" + sentence_html(advice.text) + "</li>\n";
    return html + "</ul>\n";
}

}  // namespace

std::string report_page(const ReportTitle& title,
                        const Participation& report,
                        const ReportExtras& extras) {
    const auto loss = [](const CurvePoint& point) { return point.loss; };
    const auto devices = [](const CurvePoint& point) { return std::optional(point.devices); };
    const double seconds = report.end - report.begin;
    const TimeUnit unit = time_unit_for(seconds);
    std::string html = page_begin(title.run + " – report") +
                       fmt::format("<h1>{}</h1><p>Run {} · {} · made {}</p>\n",
                                   escape_html(title.run),
                                   escape_html(title.run_id),
                                   time_in_words(seconds),
                                   escape_html(title.made_at));
    if (report.steps == 0) return html + "<p>No certified step yet.</p></body></html>\n";
    html += summary(report);
    html += "<h2>Loss</h2><p>Of the peer that kept the log.</p>\n";
    html += line_chart("loss", unit.name, {{"loss", points_of(report, unit, loss)}}, false);
    html += evaluation(extras, report, unit);
    html += "<h2>Devices at work</h2><p>Whose samples are in each step.</p>\n";
    html += line_chart(
        "contributing devices", unit.name, {{"devices", points_of(report, unit, devices)}}, true);
    if (report.steps_by_day.size() > 1)
        html +=
            "<h2>Steps a day</h2><p>Whole days since the first step; the last one is not "
            "over.</p>\n" +
            bar_chart("global steps of each day", report.steps_by_day);
    if (extras.why) html += time_of_a_step(*extras.why);
    html +=
        "<h2>People</h2><p>Samples are counted from certificates that a majority of voters "
        "signed; times are the log keeper's.</p>\n";
    return html + table(report) + "</body></html>\n";
}

}  // namespace dedloc::monitor
