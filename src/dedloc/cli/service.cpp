// dedloc service: a peer that trains when the machine has nothing else to do.
//
//   install   writes a systemd user unit, and starts it
//   remove    stops it, and takes the unit away
//   run       what the unit runs: starts `dedloc join` when it may train, and ends it when not

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <signal.h>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/peer/cap_schedule.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/service_policy.h"
#include "dedloc/peer/service_unit.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/runtime/machine.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto service_look_time = std::chrono::seconds(1);
constexpr double leave_seconds_max = 30;  // a peer hands in what it has, and saves
constexpr double pause_first_s = 30;      // after a failure, doubled each time
constexpr double pause_most_s = 900;      // also when the run is over: it may be resumed
constexpr double systemctl_seconds_max = 30;
constexpr std::string_view string_file = "service-string";

std::string unit_name(const Digest& run) { return "dedloc-" + run.short_hex() + ".service"; }

Result<std::string> units_folder() {
    if (const char* folder = std::getenv("XDG_CONFIG_HOME"); folder && *folder != '\0')
        return std::string(folder) + "/systemd/user";
    if (const char* home = std::getenv("HOME"); home && *home != '\0')
        return std::string(home) + "/.config/systemd/user";
    return make_error(ErrorKind::local_fault, "neither XDG_CONFIG_HOME nor HOME is set");
}

std::optional<peer::Failure> without_systemd() {
    std::error_code error;
    if (fs::exists("/run/systemd/system", error)) return std::nullopt;
    return peer::Failure{
        peer::ExitCode::bad_input,
        "this system is not run by systemd, for which the service is; let your own "
        "service manager run `dedloc service run` with the same options instead"};
}

std::optional<peer::Failure> systemctl(std::vector<std::string> words, const std::string& scratch) {
    words.insert(words.begin(), {"systemctl", "--user"});
    const runtime::ChildOptions options{
        .command = words, .output_file = scratch + ".out", .error_file = scratch + ".err"};
    auto child = runtime::ChildProcess::start(options);
    if (!child) return peer::failure(child.error());
    const bool ended = child->wait_for(systemctl_seconds_max);
    const auto said = peer::read_text_file(scratch + ".err", 4096);
    std::error_code error;
    fs::remove(scratch + ".out", error);
    fs::remove(scratch + ".err", error);
    if (ended && child->end()->exit_code == 0) return std::nullopt;
    return peer::Failure{
        peer::ExitCode::bad_input,
        fmt::format(
            "systemctl --user {} failed: {}", words[2], said ? *said : std::string("no answer"))};
}

// The options that `run` gets from the unit, and `join` from `run`.
std::vector<std::string> join_words(const ServiceOptions& options) {
    std::vector<std::string> words;
    const auto add = [&words](const char* name, const std::string& value) {
        if (!value.empty()) words.insert(words.end(), {name, value});
    };
    add("--dir", options.directory);
    add("--name", options.name);
    add("--data", options.data_directory);
    add("--max-up", options.caps.max_up);
    add("--max-down", options.caps.max_down);
    if (options.threads > 0) add("--threads", std::to_string(options.threads));
    if (options.agrees) words.emplace_back("--yes");
    return words;
}

std::optional<peer::Failure> check_options(const ServiceOptions& options) {
    if (const auto hours = peer::TrainingHours::parse(options.hours); !hours)
        return peer::failure(hours.error());
    if (const auto caps = peer::caps_of_day(options.caps.max_up, options.caps.max_down); !caps)
        return peer::failure(caps.error());
    return std::nullopt;
}

peer::Outcome<std::string> keep_string(const ServiceOptions& options, const Digest& run) {
    const auto root = peer::state_root();
    if (!root) return peer::failure(peer::ExitCode::disk, root.error());
    const std::string folder =
        options.directory.empty() ? *root + "/" + run.short_hex() : options.directory;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        return peer::Failure{peer::ExitCode::disk,
                             "cannot make " + folder + ": " + error.message()};
    const std::string path = folder + "/" + std::string(string_file);
    if (const Ok kept = peer::write_private_file(path, options.join_string + "\n"); !kept)
        return peer::failure(peer::ExitCode::disk, kept.error());
    return path;
}

std::optional<peer::Failure> install(const ServiceOptions& options, const std::string& program) {
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::failure(join.error());
    if (auto wrong = check_options(options)) return wrong;
    if (auto none = without_systemd()) return none;
    const auto folder = units_folder();
    if (!folder) return peer::failure(folder.error());
    auto string_path = keep_string(options, join->run);
    if (!string_path) return string_path.failure();
    std::error_code error;
    fs::create_directories(*folder, error);
    peer::ServiceUnit unit{.program = fs::absolute(program).lexically_normal().string(),
                           .words = {"service", "run", "@" + *string_path},
                           .run = "run " + join->run.short_hex(),
                           .processor_percent = options.processor_percent};
    for (std::string& word : join_words(options)) unit.words.push_back(std::move(word));
    if (!options.hours.empty()) unit.words.insert(unit.words.end(), {"--hours", options.hours});
    if (options.idle_minutes > 0)
        unit.words.insert(unit.words.end(), {"--idle", fmt::format("{}", options.idle_minutes)});
    const std::string name = unit_name(join->run);
    const std::string path = *folder + "/" + name;
    if (const Ok written = peer::write_private_file(path, peer::unit_text(unit)); !written)
        return peer::failure(peer::ExitCode::disk, written.error());
    if (auto failed = systemctl({"daemon-reload"}, *string_path)) return failed;
    if (auto failed = systemctl({"enable", "--now", name}, *string_path)) return failed;
    peer::say(
        stdout,
        "{} is installed ({}); `systemctl --user status {}` says how it is doing. So that it also "
        "runs while you are not logged in, after a reboot too: loginctl enable-linger\n",
        name,
        path,
        name);
    return std::nullopt;
}

std::optional<peer::Failure> remove_unit(const ServiceOptions& options) {
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::failure(join.error());
    if (auto none = without_systemd()) return none;
    const auto folder = units_folder();
    if (!folder) return peer::failure(folder.error());
    const std::string name = unit_name(join->run);
    const std::string path = *folder + "/" + name;
    std::error_code error;
    if (!fs::exists(path, error))
        return peer::Failure{peer::ExitCode::bad_input,
                             "there is no service for this run: no " + path};
    const std::string scratch = path + ".systemctl";
    if (auto failed = systemctl({"disable", "--now", name}, scratch)) return failed;
    fs::remove(path, error);
    if (auto failed = systemctl({"daemon-reload"}, scratch)) return failed;
    peer::say(stdout, "{} is stopped and removed; the peer's folder stays\n", name);
    return std::nullopt;
}

int minute_of_local_day() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    return parts.tm_hour * 60 + parts.tm_min;
}

// The peer of the service, which is there while it may be.
class Supervisor {
  public:
    Supervisor(const ServiceOptions& options, std::string program, peer::TrainingHours hours)
        : options_(options),
          program_(std::move(program)),
          hours_(std::move(hours)),
          idle_(static_cast<int>(runtime::usable_processors())) {}

    void poll() {
        const double now = peer::steady_seconds();
        idle_.observe(now, peer::machine_use(child_ ? child_->pid() : 0));
        if (child_ && !child_->running()) ended(now);
        const bool may = may_train(now);
        if (may && !child_ && now >= next_start_) start(now);
        if (!may && child_) stop("this machine is used, or it is not the hour");
    }
    void stop(const char* why) {
        if (!child_) return;
        peer::say(stderr, "dedloc: the peer leaves: {}\n", why);
        child_->send(SIGINT);
        (void)child_->wait_for(leave_seconds_max);
        child_.reset();  // kills what still runs
    }

  private:
    bool may_train(double now) const {
        return hours_.contain(minute_of_local_day()) &&
               idle_.idle_seconds(now) >= options_.idle_minutes * 60;
    }
    void start(double now) {
        std::vector<std::string> command{program_, "join", options_.join_string, "--quiet"};
        for (std::string& word : join_words(options_)) command.push_back(std::move(word));
        // Standard error is the journal's.
        const runtime::ChildOptions child{
            .command = command, .output_file = "/dev/null", .error_file = "/dev/stderr"};
        auto started = runtime::ChildProcess::start(child);
        if (!started) {
            peer::say(stderr, "dedloc: {}\n", started.error().message());
            next_start_ = now + pause_most_s;
            return;
        }
        child_.emplace(*std::move(started));
        peer::say(stderr, "dedloc: the peer starts\n");
        started_ = now;
    }
    // The run may be over, paused, or out of reach: it is tried again, ever more rarely.
    void ended(double now) {
        const bool over = child_->end()->exit_code == 0 && child_->end()->signal == 0;
        pause_ = over || now - started_ > pause_most_s ? pause_first_s
                                                       : std::min(pause_ * 2, pause_most_s);
        next_start_ = now + (over ? pause_most_s : pause_);
        child_.reset();
        peer::say(stderr,
                  "dedloc: the peer has ended; it is tried again in {:.0f} s\n",
                  next_start_ - now);
    }

    const ServiceOptions& options_;
    std::string program_;
    peer::TrainingHours hours_;
    peer::IdleWatch idle_;
    std::optional<runtime::ChildProcess> child_;
    double started_ = 0;
    double next_start_ = 0;
    double pause_ = pause_first_s / 2;
};

std::optional<peer::Failure> supervise(const ServiceOptions& options, const std::string& program) {
    if (auto wrong = check_options(options)) return wrong;
    peer::catch_interrupts();
    Supervisor supervisor(options, program, *peer::TrainingHours::parse(options.hours));
    while (peer::interrupts() == 0) {
        supervisor.poll();
        std::this_thread::sleep_for(service_look_time);
    }
    supervisor.stop("the service is stopped");
    return std::nullopt;
}

}  // namespace

int run_service(const ServiceOptions& options, const std::string& program) {
    std::optional<peer::Failure> failed;
    if (options.action == "install") failed = install(options, program);
    if (options.action == "remove") failed = remove_unit(options);
    if (options.action == "run") failed = supervise(options, program);
    return failed ? peer::report(*failed) : 0;
}

}  // namespace dedloc::cli
