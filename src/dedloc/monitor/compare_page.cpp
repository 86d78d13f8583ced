#include "dedloc/monitor/compare_page.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

#include "dedloc/base/columns.h"
#include "dedloc/base/printable.h"
#include "dedloc/monitor/charts.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/planner/explanation.h"

namespace dedloc::monitor {
namespace {

constexpr double end_share = 0.1;  // of the steps: what a run ends with
constexpr std::size_t cell_columns = 20;
constexpr std::size_t measure_columns = 22;

std::string number_text(const std::optional<double>& value, double factor, int digits) {
    return value ? fmt::format("{:.{}f}", factor * *value, digits) : "-";
}

std::string seconds_text(double seconds) {
    return seconds > 0 ? planner::duration_text(seconds) : "-";
}

// One thing that is compared: a name for people and the value as text.
struct Measure {
    std::string_view name;
    std::function<std::string(const ComparedRun&)> text;
};

const std::vector<Measure>& measures() {
    static const std::vector<Measure> all = {
        {"global steps", [](const ComparedRun& run) { return std::to_string(run.report.steps); }},
        {"time",
         [](const ComparedRun& run) { return time_in_words(run.report.end - run.report.begin); }},
        {"samples", [](const ComparedRun& run) { return with_units(run.report.samples); }},
        {"samples a second",
         [](const ComparedRun& run) { return with_units(run.samples_per_s()); }},
        {"devices", [](const ComparedRun& run) { return std::to_string(run.report.devices); }},
        {"loss at the end",
         [](const ComparedRun& run) { return number_text(run.loss_at_end(), 1, 4); }},
        {"best accuracy, %",
         [](const ComparedRun& run) { return number_text(run.best_accuracy(), 100, 1); }},
        {"a step", [](const ComparedRun& run) { return seconds_text(run.why.facts.parts.sum()); }},
        {"  computing",
         [](const ComparedRun& run) { return seconds_text(run.why.facts.parts.computing_s); }},
        {"  waiting",
         [](const ComparedRun& run) { return seconds_text(run.why.facts.parts.waiting_s); }},
        {"  averaging",
         [](const ComparedRun& run) { return seconds_text(run.why.facts.parts.averaging_s); }},
        {"  applying",
         [](const ComparedRun& run) { return seconds_text(run.why.facts.parts.applying_s); }},
    };
    return all;
}

// Sentences: each other run against the first one.
std::vector<std::string> run_file_differences(const std::vector<ComparedRun>& runs) {
    std::vector<std::string> all;
    for (std::size_t i = 1; i < runs.size(); ++i)
        for (const std::string& one :
             run::differences(runs[0].why.facts.run, runs[i].why.facts.run))
            all.push_back(runs.size() == 2 ? one : runs[i].label + ": " + one);
    return all;
}

std::vector<ChartSeries> series_of(
    const std::vector<ComparedRun>& runs,
    const std::function<std::vector<ChartPoint>(const ComparedRun&)>& points) {
    std::vector<ChartSeries> series;
    for (const ComparedRun& run : runs) series.push_back({run.label, points(run)});
    return series;
}

bool has_curve(const std::vector<ChartSeries>& series) {
    return std::ranges::any_of(series,
                               [](const ChartSeries& one) { return one.points.size() > 1; });
}

std::string charts(const std::vector<ComparedRun>& runs) {
    double longest = 0;
    for (const ComparedRun& run : runs)
        longest = std::max(longest, run.report.end - run.report.begin);
    const TimeUnit unit = time_unit_for(longest);
    const auto losses =
        [&runs](const std::function<double(const ComparedRun&, const CurvePoint&)>& x) {
            return series_of(runs, [&x](const ComparedRun& run) {
                std::vector<ChartPoint> points;
                for (const CurvePoint& point : run.report.curve)
                    if (point.loss) points.push_back({x(run, point), *point.loss});
                return points;
            });
        };
    const auto by_step = losses([](const ComparedRun&, const CurvePoint& point) {
        return static_cast<double>(point.step);
    });
    const auto by_time = losses([&unit](const ComparedRun& run, const CurvePoint& point) {
        return (point.time - run.report.begin) / unit.seconds;
    });
    const auto accuracy = series_of(runs, [&unit](const ComparedRun& run) {
        std::vector<ChartPoint> points;
        for (const Scalar& scalar : run.scalars)
            if (scalar.name == "evaluation/accuracy" && run.best_accuracy())
                points.push_back({std::max(0.0, scalar.time - run.report.begin) / unit.seconds,
                                  100 * scalar.value});
        return points;
    });
    std::string html = "<h2>Loss</h2>\n" + line_chart("loss", "global steps", by_step, false) +
                       line_chart("loss", unit.name, by_time, false);
    if (has_curve(accuracy))
        html += "<h2>Accuracy</h2><p>On held-out data, in percent.</p>\n" +
                line_chart("accuracy in percent", unit.name, accuracy, false);
    return html;
}

}  // namespace

std::optional<double> ComparedRun::loss_at_end() const {
    std::vector<double> losses;
    for (const CurvePoint& point : report.curve)
        if (point.loss) losses.push_back(*point.loss);
    if (losses.empty()) return std::nullopt;
    const auto count = std::max<std::size_t>(
        1, static_cast<std::size_t>(end_share * static_cast<double>(losses.size())));
    double sum = 0;
    for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
    return sum / static_cast<double>(count);
}

std::optional<double> ComparedRun::best_accuracy() const {
    double best = 0;
    for (const Scalar& scalar : scalars)
        if (scalar.name == "evaluation/accuracy") best = std::max(best, scalar.value);
    return best > 0 ? std::optional(best) : std::nullopt;
}

double ComparedRun::samples_per_s() const {
    const double seconds = report.end - report.begin;
    return seconds > 0 ? report.samples / seconds : 0;
}

std::string compare_page(const std::string& made_at, const std::vector<ComparedRun>& runs) {
    std::string html =
        page_begin("Runs compared") +
        fmt::format(
            "<h1>{} runs compared</h1><p>Made {}</p>\n", runs.size(), escape_html(made_at)) +
        "<div class=table><table><tr><th></th>";
    for (const ComparedRun& run : runs) html += "<th>" + escape_html(run.label) + "</th>";
    html += "</tr>\n";
    for (const Measure& measure : measures()) {
        html += fmt::format("<tr><td>{}</td>", measure.name);
        for (const ComparedRun& run : runs) html += "<td>" + measure.text(run) + "</td>";
        html += "</tr>\n";
    }
    html += "</table></div>\n" + charts(runs) + "<h2>Run files</h2>\n";
    const std::vector<std::string> differences = run_file_differences(runs);
    if (differences.empty()) return html + "<p>They are the same run.</p></body></html>\n";
    html += fmt::format("<p>Differences; \"here\" is {}.</p><ul>\n", escape_html(runs[0].label));
    for (const std::string& one : differences) html += "<li>" + escape_html(one) + "</li>\n";
    return html + "</ul></body></html>\n";
}

std::string to_text(const std::vector<ComparedRun>& runs) {
    std::string text = base::left_in("", measure_columns);
    for (const ComparedRun& run : runs)
        text += base::right_in(base::printable_columns(run.label), cell_columns);
    text += "\n";
    for (const Measure& measure : measures()) {
        text += base::left_in(measure.name, measure_columns);
        for (const ComparedRun& run : runs) text += base::right_in(measure.text(run), cell_columns);
        text += "\n";
    }
    const std::vector<std::string> differences = run_file_differences(runs);
    if (differences.empty()) return text + "the run files are the same\n";
    text += fmt::format("their run files differ (here: {}):\n", runs[0].label);
    for (const std::string& one : differences) text += "  " + one + "\n";
    return text;
}

std::string to_json(const std::vector<ComparedRun>& runs) {
    nlohmann::ordered_json json;
    json["runs"] = nlohmann::ordered_json::array();
    const auto number = [](const std::optional<double>& value) {
        return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
    };
    for (const ComparedRun& run : runs) {
        const StepParts& parts = run.why.facts.parts;
        json["runs"].push_back({{"label", run.label},
                                {"steps", run.report.steps},
                                {"seconds", run.report.end - run.report.begin},
                                {"samples", run.report.samples},
                                {"samples_per_s", run.samples_per_s()},
                                {"devices", run.report.devices},
                                {"loss_at_end", number(run.loss_at_end())},
                                {"best_accuracy", number(run.best_accuracy())},
                                {"step_s", parts.sum()},
                                {"computing_s", parts.computing_s},
                                {"waiting_s", parts.waiting_s},
                                {"averaging_s", parts.averaging_s},
                                {"applying_s", parts.applying_s}});
    }
    json["differences"] = run_file_differences(runs);
    return json_line(json);
}

}  // namespace dedloc::monitor
