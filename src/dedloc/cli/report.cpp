// dedloc report: one page, and numbers for programs, about who took part in a run and what came of
// it, from the certificates and events in the folder of one peer that stayed.

#include <chrono>
#include <filesystem>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/monitor/report_page.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/tensorboard.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/run_file.h"

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

Ok write_report(const ReportOptions& options) {
    DEDLOC_TRY(const monitor::ReportTitle title, title_of(options.folder));
    DEDLOC_TRY(const monitor::RunHistory history, monitor::read_history(options.folder));
    const monitor::Participation report = monitor::participation_of(history.steps, history.persons);
    if (report.steps == 0)
        return make_error(ErrorKind::not_found, "{}: no step was certified yet", options.folder);
    const std::string to = options.output.empty() ? options.folder + "/report" : options.output;
    std::error_code error;
    fs::create_directories(to, error);
    if (error) return make_error(ErrorKind::local_fault, "cannot make {}: {}", to, error.message());
    DEDLOC_TRY_VOID(write_public_file(to + "/report.html", monitor::report_page(title, report)));
    DEDLOC_TRY_VOID(write_public_file(to + "/report.json", monitor::to_json(report) + "\n"));
    DEDLOC_TRY_VOID(write_public_file(to + "/scalars.csv", monitor::to_csv(history.scalars)));
    const Bytes events = monitor::to_tensorboard(history.scalars);
    const std::string_view events_text(reinterpret_cast<const char*>(events.data()), events.size());
    DEDLOC_TRY_VOID(write_public_file(to + "/events.out.tfevents.0.dedloc", events_text));
    if (options.json)
        peer::say(stdout, "{}\n", monitor::to_json(report));
    else
        peer::say(stdout, "{}{}\n", monitor::to_text(report), "the page: " + to + "/report.html");
    return {};
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
        const Ok written = write_report(options);
        return written ? 0 : peer::report(peer::failure(written.error()));
    }
    const auto every = seconds_of(options.every);
    if (!every) return peer::report(peer::failure(every.error()));
    peer::catch_interrupts();
    while (peer::interrupts() == 0) {
        const double next = peer::steady_seconds() + *every;
        if (const Ok written = write_report(options); !written) {
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
