// dedloc report: one page, and numbers for programs, about who took part in a run and what came of
// it, from the certificates and events in the folder of one peer that stayed.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dedloc/base/release.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/monitor/compare_page.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/tensorboard.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/run_file.h"
#include "dedloc/web/replay.h"
#include "dedloc/web/saved_page.h"
#include "dedloc/web/sheets.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto report_look_time = std::chrono::milliseconds(200);
constexpr double report_hour_s = 3600;

std::string as_people_write(WallSeconds time) {
    const auto seconds = static_cast<std::time_t>(time);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32] = {};
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
    return text;
}

// Whole or not at all: who reads it meanwhile, or a web server, has the old one.
Ok write_public_file(const std::string& path, std::string_view text) {
    DEDLOC_TRY_VOID(peer::write_private_file(path, text));
    std::error_code error;
    fs::permissions(
        path, fs::perms::group_read | fs::perms::others_read, fs::perm_options::add, error);
    return {};
}

Result<monitor::ReportTitle> title_of(const std::string& folder) {
    const std::string path = folder + "/" + std::string(peer::run_copy_file);
    DEDLOC_TRY(const run::RunFile run, given_run_file(path));
    return monitor::ReportTitle{.run = run.name,
                                .run_id = run::run_hash(run).short_hex(),
                                .made_at = as_people_write(peer::wall_seconds())};
}

// Where the time of its steps goes.
Result<monitor::Why> why_in(const std::string& folder, const monitor::RunHistory& history) {
    DEDLOC_TRY(run::RunFile run, given_run_file(folder + "/" + std::string(peer::run_copy_file)));
    monitor::WhyEvents seen(std::move(run));
    DEDLOC_TRY_VOID(
        monitor::read_events(folder, [&seen](const events::Event& event) { seen.add(event); }));
    return monitor::explain(seen.facts(history.steps));
}

Ok make_folder(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot make {}: {}", path, error.message());
    return {};
}

// Writes the live page as it was in the end. A folder without events has none.
Ok write_page(const std::string& folder, const std::string& path) {
    DEDLOC_TRY(const run::RunFile run,
               given_run_file(folder + "/" + std::string(peer::run_copy_file)));
    const auto replay = web::Replay::open(folder, run, std::string(base::release));
    if (!replay) return {};
    (*replay)->to_end();
    return write_public_file(path,
                             web::saved_page((*replay)->store(), web::sheets_folder_of(folder)));
}

Ok write_report(const ReportOptions& options) {
    const std::string& folder = options.folders.front();
    DEDLOC_TRY(const monitor::ReportTitle title, title_of(folder));
    DEDLOC_TRY(const monitor::RunHistory history, monitor::read_history(folder));
    const monitor::Participation report = monitor::participation_of(history.steps, history.persons);
    if (report.steps == 0)
        return make_error(ErrorKind::not_found, "{}: no step was certified yet", folder);
    const std::string to = options.output.empty() ? folder + "/report" : options.output;
    DEDLOC_TRY_VOID(make_folder(to));
    DEDLOC_TRY(monitor::Why why, why_in(folder, history));
    const monitor::ReportExtras extras{.scalars = history.scalars, .why = std::move(why)};
    DEDLOC_TRY_VOID(
        write_public_file(to + "/report.html", monitor::report_page(title, report, extras)));
    DEDLOC_TRY_VOID(write_page(folder, to + "/run.html"));
    DEDLOC_TRY_VOID(write_public_file(to + "/report.json", monitor::to_json(report) + "\n"));
    DEDLOC_TRY_VOID(write_public_file(to + "/scalars.csv", monitor::to_csv(history.scalars)));
    const Bytes events = monitor::to_tensorboard(history.scalars);
    const std::string_view events_text(reinterpret_cast<const char*>(events.data()), events.size());
    DEDLOC_TRY_VOID(write_public_file(to + "/events.out.tfevents.0.dedloc", events_text));
    if (options.json)
        peer::say(stdout, "{}\n", monitor::to_json(report));
    else
        peer::say(
            stdout,
            "{0}the page: {1}/report.html\nthe run's page as it was in the end: {1}/run.html\n",
            monitor::to_text(report),
            to);
    return {};
}

// Runs of one name are called by their folders as well.
std::vector<std::string> labels_of(const std::vector<std::string>& folders,
                                   const std::vector<std::string>& names) {
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < folders.size(); ++i) {
        const bool is_one_of_several = std::ranges::count(names, names[i]) > 1;
        std::string label = is_one_of_several ? folders[i] : names[i];
        for (int number = 2; std::ranges::find(labels, label) != labels.end(); ++number)
            label = fmt::format("{} {}", folders[i], number);
        labels.push_back(std::move(label));
    }
    return labels;
}

Ok write_comparison(const ReportOptions& options) {
    if (options.folders.size() > monitor::compared_runs_max)
        return make_error(ErrorKind::bad_input,
                          "{} folders are too many to compare: at most {}",
                          options.folders.size(),
                          monitor::compared_runs_max);
    std::vector<monitor::ComparedRun> runs;
    std::vector<std::string> names;
    for (const std::string& folder : options.folders) {
        DEDLOC_TRY(monitor::RunHistory history, monitor::read_history(folder));
        monitor::ComparedRun run;
        run.report = monitor::participation_of(history.steps, history.persons);
        if (run.report.steps == 0)
            return make_error(ErrorKind::not_found, "{}: no step was certified yet", folder);
        DEDLOC_TRY(run.why, why_in(folder, history));
        run.scalars = std::move(history.scalars);
        names.push_back(run.why.facts.run.name);
        runs.push_back(std::move(run));
    }
    const std::vector<std::string> labels = labels_of(options.folders, names);
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].label = labels[i];
    const std::string to = options.output.empty() ? "compared" : options.output;
    DEDLOC_TRY_VOID(make_folder(to));
    const std::string page = to + "/compared.html";
    DEDLOC_TRY_VOID(write_public_file(
        page, monitor::compare_page(as_people_write(peer::wall_seconds()), runs)));
    DEDLOC_TRY_VOID(write_public_file(to + "/compared.json", monitor::to_json(runs) + "\n"));
    if (options.json)
        peer::say(stdout, "{}\n", monitor::to_json(runs));
    else
        peer::say(stdout, "{}the page: {}\n", monitor::to_text(runs), page);
    return {};
}

Ok write_what_is_asked(const ReportOptions& options) {
    return options.folders.size() > 1 ? write_comparison(options) : write_report(options);
}

// "24h", "30m", "90s".
Result<double> seconds_of(const std::string& text) {
    std::size_t end = 0;
    double number = 0;
    try {
        number = std::stod(text, &end);
    } catch (const std::exception&) {
        end = 0;
    }
    const std::string unit = text.substr(end);
    const double factor = unit == "h" ? report_hour_s : unit == "m" ? 60 : unit == "s" ? 1 : 0;
    if (end == 0 || !(number > 0) || factor == 0)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no time between two reports; write 24h, 30m or 90s",
                          text);
    return number * factor;
}

}  // namespace

int run_report(const ReportOptions& options) {
    if (options.every.empty()) {
        const Ok written = write_what_is_asked(options);
        return written ? 0 : peer::report(peer::failure(written.error()));
    }
    const auto every = seconds_of(options.every);
    if (!every) return peer::report(peer::failure(every.error()));
    peer::catch_interrupts();
    while (peer::interrupts() == 0) {
        const double next = peer::steady_seconds() + *every;
        if (const Ok written = write_what_is_asked(options); !written) {
            // The next one may have what this lacks: a first step, room on the disk.
            if (written.error().kind() == ErrorKind::bad_input)
                return peer::report(peer::failure(written.error()));
            peer::say(stderr, "dedloc: {}\n", written.error().message());
        }
        while (peer::interrupts() == 0 && peer::steady_seconds() < next)
            std::this_thread::sleep_for(report_look_time);
    }
    return 0;
}

}  // namespace dedloc::cli
