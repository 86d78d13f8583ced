#include "dedloc/monitor/participation.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/base/columns.h"
#include "dedloc/base/printable.h"
#include "dedloc/monitor/charts.h"
#include "dedloc/monitor/json_line.h"

namespace dedloc::monitor {

namespace {

constexpr std::size_t rows_shown = 20;
constexpr std::size_t person_columns = 24;
constexpr double day_seconds = 86'400;

void add_person(PersonReport& person, const DeviceTimes& device) {
    if (person.devices++ == 0) {
        person.first_seen = device.first_seen;
        person.last_seen = device.last_seen;
    }
    person.sessions += device.sessions;
    person.samples += device.samples;
    person.device_seconds += device.seconds;
    person.first_seen = std::min(person.first_seen, device.first_seen);
    person.last_seen = std::max(person.last_seen, device.last_seen);
}

void add_persons(Participation& report,
                 const std::map<PeerId, DeviceTimes>& devices,
                 const std::map<PeerId, std::string>& names) {
    std::map<std::string, PersonReport> persons;
    double session_seconds = 0;
    for (const auto& [peer, device] : devices) {
        const auto found = names.find(peer);
        std::string name = found == names.end() ? peer.short_text() : found->second;
        PersonReport& person = persons[name];
        person.name = std::move(name);
        add_person(person, device);
        session_seconds += device.seconds;
        report.session_longest_seconds =
            std::max(report.session_longest_seconds, device.longest_seconds);
        report.sessions += device.sessions;
    }
    report.devices = devices.size();
    if (report.sessions > 0)
        report.session_mean_seconds = session_seconds / static_cast<double>(report.sessions);
    for (auto& [name, person] : persons) report.persons.push_back(std::move(person));
    std::ranges::stable_sort(report.persons, [](const PersonReport& a, const PersonReport& b) {
        return a.samples > b.samples;
    });
}

double median_participation(const std::vector<PersonReport>& persons) {
    if (persons.empty()) return 0;
    std::vector<double> seconds;
    for (const PersonReport& person : persons) seconds.push_back(person.device_seconds);
    std::ranges::sort(seconds);
    const std::size_t half = seconds.size() / 2;
    if (seconds.size() % 2 == 1) return seconds[half];
    return (seconds[half - 1] + seconds[half]) / 2;
}

CurvePoint point_of(const std::vector<CertifiedStep>& steps, std::size_t first, std::size_t end) {
    CurvePoint point{steps[end - 1].time, steps[end - 1].step, std::nullopt, 0, 0};
    double losses = 0;
    std::size_t with_loss = 0;
    for (std::size_t i = first; i < end; ++i) {
        point.devices += static_cast<double>(steps[i].shares.size());
        for (const CertifiedStep::Share& share : steps[i].shares) point.samples += share.samples;
        if (!steps[i].loss || !std::isfinite(*steps[i].loss)) continue;
        losses += *steps[i].loss;
        ++with_loss;
    }
    point.devices /= static_cast<double>(end - first);
    if (with_loss > 0) point.loss = losses / static_cast<double>(with_loss);
    return point;
}

void add_curve(Participation& report, const std::vector<CertifiedStep>& steps) {
    const std::size_t points = std::min(steps.size(), curve_points_max);
    for (std::size_t i = 0; i < points; ++i)
        report.curve.push_back(
            point_of(steps, i * steps.size() / points, (i + 1) * steps.size() / points));
    for (const CertifiedStep& step : steps) {
        const double day = std::max(0.0, std::floor((step.time - report.begin) / day_seconds));
        const auto at = static_cast<std::size_t>(std::min(day, 36'500.0));  // a century
        if (report.steps_by_day.size() <= at) report.steps_by_day.resize(at + 1);
        ++report.steps_by_day[at];
    }
}

}  // namespace

Participation participation_of(const std::vector<CertifiedStep>& steps,
                               const std::map<PeerId, std::string>& persons) {
    Participation report;
    if (steps.empty()) return report;
    report.steps = steps.size();
    report.begin = steps.front().time;
    report.end = steps.back().time;
    Attendance attendance;
    for (const CertifiedStep& step : steps) attendance.add(step);
    add_persons(report, attendance.devices(), persons);
    for (const PersonReport& person : report.persons) report.samples += person.samples;
    report.participation_median_seconds = median_participation(report.persons);
    add_curve(report, steps);
    return report;
}

std::string to_json(const Participation& report) {
    nlohmann::ordered_json json;
    json["steps"] = report.steps;
    json["samples"] = report.samples;
    json["begin"] = report.begin;
    json["end"] = report.end;
    json["days"] = report.days();
    json["people"] = report.persons.size();
    json["devices"] = report.devices;
    json["sessions"] = report.sessions;
    json["session_mean_seconds"] = report.session_mean_seconds;
    json["session_longest_seconds"] = report.session_longest_seconds;
    json["participation_median_seconds"] = report.participation_median_seconds;
    json["steps_by_day"] = report.steps_by_day;
    json["persons"] = nlohmann::ordered_json::array();
    for (const PersonReport& person : report.persons)
        json["persons"].push_back({{"name", person.name},
                                   {"samples", person.samples},
                                   {"devices", person.devices},
                                   {"sessions", person.sessions},
                                   {"device_seconds", person.device_seconds},
                                   {"first_seen", person.first_seen},
                                   {"last_seen", person.last_seen}});
    json["curve"] = nlohmann::ordered_json::array();
    for (const CurvePoint& point : report.curve) {
        nlohmann::ordered_json one{{"time", point.time},
                                   {"step", point.step},
                                   {"devices", point.devices},
                                   {"samples", point.samples}};
        one["loss"] = point.loss ? nlohmann::ordered_json(*point.loss) : nullptr;
        json["curve"].push_back(std::move(one));
    }
    return json_line(json);
}

std::string to_text(const Participation& report) {
    const auto plural = [](std::uint64_t count, const char* one, const char* more) {
        return fmt::format("{} {}", count, count == 1 ? one : more);
    };
    std::string text = fmt::format(
        "{} steps and {:.0f} samples in {}\n"
        "{} with {} in {}: mean {}, longest {}; median participation {}\n",
        report.steps,
        report.samples,
        time_in_words(report.end - report.begin),
        plural(report.persons.size(), "person", "people"),
        plural(report.devices, "device", "devices"),
        plural(report.sessions, "session", "sessions"),
        time_in_words(report.session_mean_seconds),
        time_in_words(report.session_longest_seconds),
        time_in_words(report.participation_median_seconds));
    text += fmt::format("  {}{:>14}{:>9}{:>10}{:>12}\n",
                        base::left_in("person", person_columns),
                        "samples",
                        "devices",
                        "sessions",
                        "time");
    for (std::size_t i = 0; i < std::min(report.persons.size(), rows_shown); ++i) {
        const PersonReport& person = report.persons[i];
        text += fmt::format("  {}{:>14.0f}{:>9}{:>10}{:>12}\n",
                            base::left_in(base::printable_columns(person.name), person_columns),
                            person.samples,
                            person.devices,
                            person.sessions,
                            time_in_words(person.device_seconds));
    }
    if (report.persons.size() > rows_shown)
        text += fmt::format("  … and {} more\n", report.persons.size() - rows_shown);
    return text;
}

}  // namespace dedloc::monitor
