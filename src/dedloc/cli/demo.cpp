// dedloc demo: a whole collaboration on this machine. Real processes of this same program train
// the run of examples/demo.toml; one is killed, one leaves, one joins late; at the end everything
// that was promised is checked against what the peers left on disk.
//
// Bounded: it ends after seconds_max whatever happens; children never outlive it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <signal.h>
#include <thread>
#include <unistd.h>

#include "dedloc/audit/audit.h"
#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/demo_script.h"
#include "dedloc/cli/watcher.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/templates/run_templates.h"

namespace dedloc::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using runtime::ChildEnd;
using runtime::ChildOptions;
using runtime::ChildProcess;

constexpr double join_timeout_s = 180;  // until the first peer can be joined
constexpr double leave_timeout_s = 30;  // for children to end in order

struct DemoPeer {
    std::string name;
    std::string directory;
    ChildProcess process;
    bool was_killed = false;
    bool was_told_to_leave = false;
    bool came_late = false;
    nlohmann::json last_words;  // the object on its last line, null if there is none

    bool should_finish() const { return !was_killed && !was_told_to_leave; }
};

nlohmann::json last_json_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    nlohmann::json last;
    while (std::getline(file, line)) {
        auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (json.is_object()) last = std::move(json);
    }
    return last;
}

std::string last_lines(const std::string& path, std::size_t bytes_max) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.size() > bytes_max) text.erase(0, text.size() - bytes_max);
    return text;
}

// Reads whose folder this is (was) from its key.
Result<PeerId> identity_in(const std::string& directory) {
    DEDLOC_TRY(const auto locked, security::load_or_create_identity(directory));
    return locked.identity().id();
}

struct DemoResult {
    bool finished = false;  // all live peers reached the stop condition
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    double accuracy = 0;
    std::uint64_t accuracy_step = 0;
    std::set<std::string> state_hashes;
    int kills = 0;
    int leaves = 0;
    int joins = 0;
    std::string checkpoint;
    std::string checkpoint_problem;
    std::optional<audit::AuditReport> audit_report;
    std::string audit_problem;
    double seconds = 0;
    std::vector<std::string> problems;  // empty: everything held
};

class Demo {
  public:
    Demo(const DemoOptions& options, std::string program)
        : options_(options),
          program_(std::move(program)),
          screen_(STDOUT_FILENO, screen_options(options)) {}

    int run();

  private:
    static monitor::ScreenOptions screen_options(const DemoOptions& options) {
        return monitor::screen_options_for(STDOUT_FILENO, options.plain);
    }

    std::optional<peer::Failure> prepare();
    std::optional<peer::Failure> start_peer(bool late);
    std::optional<peer::Failure> start_all();
    std::optional<peer::Failure> wait_for_join_string();
    std::optional<peer::Failure> watch();
    std::optional<peer::Failure> act(Act act);
    std::optional<peer::Failure> unexpected_end();
    peer::Failure ended_early(const DemoPeer& peer) const;
    void stop_children();
    void collect(DemoResult& result);
    void check(DemoResult& result) const;
    void print_summary(const DemoResult& result);
    void print_json(const DemoResult& result) const;
    double seconds() const {
        return std::chrono::duration<double>(Clock::now() - started_).count();
    }

    DemoOptions options_;
    std::string program_;
    monitor::Screen screen_;
    Clock::time_point started_ = Clock::now();
    std::string folder_;
    std::string run_path_;
    run::RunFile run_;
    std::string join_text_;
    std::vector<std::unique_ptr<DemoPeer>> peers_;
    std::unique_ptr<Watcher> watcher_;
    std::unique_ptr<monitor::RunModel> model_;
};

std::optional<peer::Failure> Demo::prepare() {
    std::string text(templates::demo_run_file());
    std::string name = "demo.toml";
    if (!options_.run_file.empty()) {
        auto read = peer::read_text_file(options_.run_file, run::run_file_bytes_max);
        if (!read) return peer::failure(read.error());
        text = *std::move(read);
        name = options_.run_file;
    }
    auto run = run::parse_run_file(text, name);
    if (!run) return peer::failure(run.error());
    run_ = *std::move(run);
    if (run_.stop.steps < 20)
        return peer::Failure{peer::ExitCode::bad_input,
                             name + ": the demo needs 'stop.steps' of at least 20, for its script"};
    std::error_code error;
    if (options_.directory.empty()) {
        std::string pattern = (fs::temp_directory_path(error) / "dedloc-demo-XXXXXX").string();
        if (!mkdtemp(pattern.data()))
            return peer::Failure{peer::ExitCode::disk, "cannot make a temporary folder " + pattern};
        folder_ = pattern;
    } else {
        folder_ = fs::absolute(options_.directory).lexically_normal().string();
        fs::create_directories(folder_, error);
        if (error || !fs::is_empty(folder_, error))
            return peer::Failure{peer::ExitCode::disk,
                                 folder_ + " must be a folder that is empty or can be made"};
        options_.keep = true;
    }
    run_path_ = folder_ + "/run.toml";
    if (const Ok written = peer::write_private_file(run_path_, text); !written)
        return peer::failure(peer::ExitCode::disk, written.error());
    return std::nullopt;
}

std::optional<peer::Failure> Demo::start_peer(bool late) {
    const std::string name = fmt::format("peer-{}", peers_.size() + 1);
    const std::string directory = folder_ + "/" + name;
    std::vector<std::string> command = {program_};
    if (peers_.empty())
        command.insert(command.end(), {"host", run_path_});
    else
        command.insert(command.end(), {"join", join_text_});
    command.insert(command.end(),
                   {"--dir",
                    directory,
                    "--name",
                    name,
                    "--listen",
                    "/ip4/127.0.0.1/tcp/0",
                    "--threads",
                    "1",
                    "--quiet",
                    "--json"});
    const ChildOptions child{.command = std::move(command),
                             .output_file = directory + ".out",
                             .error_file = directory + ".err",
                             .niceness = 0};
    auto process = ChildProcess::start(child);
    if (!process) return peer::failure(peer::ExitCode::disk, process.error());
    peers_.push_back(std::make_unique<DemoPeer>(DemoPeer{.name = name,
                                                         .directory = directory,
                                                         .process = *std::move(process),
                                                         .was_killed = false,
                                                         .was_told_to_leave = false,
                                                         .came_late = late,
                                                         .last_words = {}}));
    return std::nullopt;
}

peer::Failure Demo::ended_early(const DemoPeer& peer) const {
    const ChildEnd end = peer.process.end().value_or(ChildEnd{});
    const std::string how = end.signal != 0 ? fmt::format("by signal {}", end.signal)
                                            : fmt::format("with exit code {}", end.exit_code);
    const bool known = end.signal == 0 && end.exit_code != 0;
    return {
        known ? static_cast<peer::ExitCode>(end.exit_code) : peer::ExitCode::check_failed,
        fmt::format("{} ended {}: {}", peer.name, how, last_lines(peer.directory + ".err", 2000))};
}

std::optional<peer::Failure> Demo::wait_for_join_string() {
    DemoPeer& host = *peers_.front();
    while (seconds() < join_timeout_s) {
        const auto text = peer::read_text_file(host.directory + "/" + std::string(peer::join_file),
                                               2 * run::join_string_bytes_max);
        if (text && run::parse_join_string(*text)) {
            join_text_ = text->substr(0, text->find_last_not_of(" \n") + 1);
            return std::nullopt;
        }
        if (peer::interrupts() > 0)
            return peer::Failure{peer::ExitCode::interrupted, "interrupted"};
        if (host.process.wait_for(0.05)) return ended_early(host);
    }
    return peer::Failure{
        peer::ExitCode::check_failed,
        fmt::format("{} gave no join string within {:.0f} s", host.name, join_timeout_s)};
}

std::optional<peer::Failure> Demo::start_all() {
    if (auto failed = start_peer(/*late=*/false)) return failed;
    if (auto failed = wait_for_join_string()) return failed;
    while (static_cast<int>(peers_.size()) < options_.peers)
        if (auto failed = start_peer(/*late=*/false)) return failed;
    auto watcher = Watcher::start(join_text_, "", join_timeout_s);
    if (!watcher) return watcher.failure();
    watcher_ = std::move(*watcher);
    model_ = std::make_unique<monitor::RunModel>(run_, PeerId(), watcher_->wall_now());
    return std::nullopt;
}

std::optional<peer::Failure> Demo::act(Act act) {
    const double at = watcher_->wall_now();
    using monitor::Tone;
    switch (act) {
        case Act::kill: {
            DemoPeer& victim = *peers_[2];
            victim.process.send(SIGKILL);
            victim.was_killed = true;
            model_->add_note(at, "the demo killed " + victim.name + " (SIGKILL)", Tone::bad);
            break;
        }
        case Act::leave: {
            DemoPeer& leaver = *peers_[1];
            leaver.process.send(SIGINT);
            leaver.was_told_to_leave = true;
            model_->add_note(
                at, "the demo asked " + leaver.name + " to leave (Ctrl-C)", Tone::neutral);
            break;
        }
        case Act::join: {
            if (auto failed = start_peer(/*late=*/true)) return failed;
            model_->add_note(at, "the demo started " + peers_.back()->name, Tone::good);
            break;
        }
    }
    return std::nullopt;
}

// A peer that nobody told to end, and that did not end well.
std::optional<peer::Failure> Demo::unexpected_end() {
    for (const auto& peer : peers_) {
        if (peer->process.running() || peer->was_killed) continue;
        const ChildEnd end = peer->process.end().value_or(ChildEnd{});
        if (end.signal != 0 || end.exit_code != 0) return ended_early(*peer);
    }
    return std::nullopt;
}

std::optional<peer::Failure> Demo::watch() {
    DemoScript script(run_.stop.steps);
    while (true) {
        for (const events::Event& event : watcher_->take_events()) model_->add(event);
        model_->update(watcher_->statuses(), watcher_->wall_now());
        const monitor::RunView view = model_->view();
        screen_.show(view);
        if (auto due = script.due(view.step))
            if (auto failed = act(*due)) return failed;
        if (auto failed = unexpected_end()) return failed;
        const bool any_running = std::any_of(
            peers_.begin(), peers_.end(), [](const auto& peer) { return peer->process.running(); });
        if (!any_running) return std::nullopt;
        if (peer::interrupts() > 0)
            return peer::Failure{peer::ExitCode::interrupted, "interrupted"};
        if (seconds() > options_.seconds_max)
            return peer::Failure{peer::ExitCode::check_failed,
                                 fmt::format("the run was at step {} of {} after {:.0f} s",
                                             view.step,
                                             run_.stop.steps,
                                             options_.seconds_max)};
        std::this_thread::sleep_for(monitor::frame_time);
    }
}

void Demo::stop_children() {
    for (const auto& peer : peers_) peer->process.send(SIGINT);
    const auto deadline = Clock::now() + std::chrono::duration<double>(leave_timeout_s);
    for (const auto& peer : peers_) {
        while (peer->process.running() && Clock::now() < deadline && peer::interrupts() < 2)
            peer->process.wait_for(0.1);
        peer->process.send(SIGKILL);
        peer->process.wait_for(5);
    }
}

void Demo::collect(DemoResult& result) {
    std::vector<std::string> logs;
    std::vector<PeerId> killed;
    for (const auto& peer : peers_) {
        peer->last_words = last_json_line(peer->directory + ".out");
        logs.push_back(peer->directory);
        const auto end = peer->process.end();
        const bool well = end && end->signal == 0 && end->exit_code == 0;
        if (peer->was_killed && end && end->signal == SIGKILL) ++result.kills;
        if (peer->was_killed)
            if (auto id = identity_in(peer->directory)) killed.push_back(*std::move(id));
        if (peer->was_told_to_leave && well) ++result.leaves;
        if (!peer->should_finish()) continue;
        const nlohmann::json& words = peer->last_words;
        if (!well || !words.is_object()) {
            result.problems.push_back(peer->name + " did not end well");
            continue;
        }
        result.state_hashes.insert(words.value("state_hash", std::string()));
        const auto step = words.value("step", std::uint64_t{0});
        result.step = std::max(result.step, step);
        result.samples = std::max(result.samples, words.value("samples", std::uint64_t{0}));
        // Only one of them measures the last state; its word is the newest.
        if (const auto at = words.value("accuracy_step", std::uint64_t{0});
            at >= result.accuracy_step) {
            result.accuracy_step = at;
            result.accuracy = words.value("accuracy", 0.0);
        }
        if (peer->came_late && step >= run_.stop.steps) ++result.joins;
    }
    const auto found = find_checkpoint(peers_.front()->directory);
    if (!found)
        result.checkpoint_problem = found.error().message();
    else if (!result.state_hashes.contains(found->checkpoint.state->root().hex()))
        result.checkpoint_problem = "the newest checkpoint holds another state";
    else
        result.checkpoint = found->path;
    auto report = audit::audit_folders(logs, {.killed = {killed.begin(), killed.end()}});
    if (report)
        result.audit_report = *std::move(report);
    else
        result.audit_problem = report.error().message();
}

void Demo::check(DemoResult& result) const {
    const auto need = [&](bool holds, std::string sentence) {
        if (!holds) result.problems.push_back(std::move(sentence));
    };
    need(result.step >= run_.stop.steps, fmt::format("the run ended at step {}", result.step));
    need(result.state_hashes.size() == 1,
         fmt::format("the peers hold {} different states", result.state_hashes.size()));
    need(result.kills == 1, "the killed peer was not killed");
    need(result.leaves == 1, "the peer that was asked to leave did not leave in order");
    need(result.joins == 1, "the late peer did not catch up");
    need(result.checkpoint_problem.empty(), "checkpoint: " + result.checkpoint_problem);
    need(result.audit_problem.empty(), "audit: " + result.audit_problem);
    if (result.audit_report) {
        need(result.audit_report->samples_twice == 0,
             fmt::format("{:.0f} samples were counted twice", result.audit_report->samples_twice));
        need(result.audit_report->samples_lost == 0,
             fmt::format("{:.0f} samples of live peers were lost",
                         result.audit_report->samples_lost));
        for (const std::string& problem : result.audit_report->problems) need(false, problem);
    }
}

void Demo::print_summary(const DemoResult& result) {
    screen_.release();
    peer::say(stdout, "\n");
    const DemoPeer& killed = *peers_[2];
    const DemoPeer& left = *peers_[1];
    if (result.problems.empty()) {
        peer::say(stdout,
                  "The run is over: {} global steps, {} samples, {:.0f} s, test accuracy "
                  "{:.1f} %.\n",
                  result.step,
                  result.samples,
                  result.seconds,
                  result.accuracy * 100);
        peer::say(stdout,
                  "{} was killed, {} left, {} joined late and caught up; the others went on.\n",
                  killed.name,
                  left.name,
                  peers_.back()->name);
        peer::say(stdout,
                  "All live peers hold the same bits: state {}.\n",
                  result.state_hashes.begin()->substr(0, 8));
        peer::say(
            stdout,
            "The audit of {} certificates: no sample counted twice, none of a live peer lost.\n",
            result.audit_report ? result.audit_report->certificates : 0);
    } else {
        peer::say(stdout, "The demo ended, but not everything held:\n");
        for (const std::string& problem : result.problems) peer::say(stdout, "  - {}\n", problem);
    }
    if (options_.keep && !result.checkpoint.empty()) {
        peer::say(stdout, "\nTry next:\n  {} eval {}\n", program_, result.checkpoint);
    } else {
        peer::say(stdout, "\nTry next, in two terminals or on two machines:\n");
        peer::say(stdout, "  {} init -o my-run.toml && {} host my-run.toml\n", program_, program_);
        peer::say(stdout, "  {} join STRING      (the string that host prints)\n", program_);
    }
}

void Demo::print_json(const DemoResult& result) const {
    nlohmann::ordered_json json{
        {"ok", result.problems.empty()},
        {"accuracy", result.accuracy},
        {"step", result.step},
        {"samples", result.samples},
        {"state_hashes", result.state_hashes.size()},
        {"state_hash", result.state_hashes.empty() ? std::string() : *result.state_hashes.begin()},
        {"kills", result.kills},
        {"leaves", result.leaves},
        {"joins", result.joins}};
    if (result.audit_report) {
        json["samples_twice"] = result.audit_report->samples_twice;
        json["samples_lost"] = result.audit_report->samples_lost;
        json["samples_unfinished"] = result.audit_report->samples_unfinished;
        json["samples_committed"] = result.audit_report->samples_committed;
        json["disagreements"] = result.audit_report->disagreements;
        json["certificates"] = result.audit_report->certificates;
    }
    json["checkpoint"] = options_.keep ? result.checkpoint : std::string();
    json["checkpoint_saved"] = result.checkpoint_problem.empty();
    json["problems"] = result.problems;
    json["seconds"] = result.seconds;
    peer::say(stdout, "{}\n", monitor::json_line(json));
}

int Demo::run() {
    peer::catch_interrupts(peer::SecondInterrupt::is_counted);
    std::optional<peer::Failure> failed = prepare();
    if (!failed) {
        screen_.say(
            fmt::format("{} processes train together on this machine; their files are in "
                        "{}",
                        options_.peers,
                        folder_));
        failed = start_all();
    }
    if (!failed) failed = watch();
    watcher_.reset();
    stop_children();
    if (failed) {
        screen_.release();
        if (!folder_.empty()) peer::say(stderr, "dedloc: the peers' files stay in {}\n", folder_);
        if (options_.json)
            peer::say(
                stdout,
                "{}\n",
                monitor::json_line(nlohmann::json{{"ok", false}, {"error", failed->message}}));
        return peer::report(*failed);
    }
    DemoResult result;
    result.seconds = seconds();
    collect(result);
    check(result);
    const bool held = result.problems.empty();
    if (!held) options_.keep = true;
    print_summary(result);
    if (!held) peer::say(stdout, "The peers' files stay in {}\n", folder_);
    if (options_.json) print_json(result);
    std::error_code error;
    if (!options_.keep) fs::remove_all(folder_, error);
    return held ? 0 : static_cast<int>(peer::ExitCode::check_failed);
}

}  // namespace

int run_demo(const DemoOptions& options, const std::string& program) {
    Demo demo(options, program);
    return demo.run();
}

}  // namespace dedloc::cli
