// dedloc watch: the live view of a run, from anywhere, without taking part.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unistd.h>

#include "dedloc/base/release.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/watch_timeout.h"
#include "dedloc/cli/watcher.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/monitor/tensorboard_writer.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/grid_lines.h"
#include "dedloc/peer/grid_watch.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/trainer_program.h"
#include "dedloc/peer/web_page.h"
#include "dedloc/planning/plan_of_run.h"

namespace dedloc::cli {
namespace {

constexpr double reach_timeout_s = 20;
constexpr double plan_timeout_s = 10;  // until everybody's status has come

nlohmann::ordered_json json_of(const monitor::RunView& view) {
    nlohmann::ordered_json peers = nlohmann::ordered_json::array();
    for (const monitor::PeerView& peer : view.peers)
        if (!peer.is_gone)
            peers.push_back({{"peer", peer.id.text()},
                             {"name", peer.name},
                             {"role", std::string(membership::to_string(peer.role))},
                             {"doing", peer.doing},
                             {"step", peer.step},
                             {"samples_per_s", peer.samples_per_s},
                             {"upload_bytes_per_s", peer.upload_bytes_per_s},
                             {"download_bytes_per_s", peer.download_bytes_per_s},
                             {"round_trip_s", peer.round_trip_s},
                             {"state_hash", peer.state_hash.hex()}});
    return {{"run", view.name},
            {"run_hash", view.run.hex()},
            {"step", view.step},
            {"samples", view.samples},
            {"loss", view.loss},
            {"accuracy", view.accuracy},
            {"samples_per_s", view.samples_per_s},
            {"computed_per_s", view.computed_per_s},
            {"seconds_left", view.seconds_left},
            {"state_hashes", view.state_hashes()},
            {"peers", std::move(peers)},
            {"seconds", view.seconds}};
}

// The best that any peer has told: one is enough for peers to end the run.
double best_accuracy(const std::vector<membership::Status>& statuses) {
    double best = 0;
    for (const membership::Status& status : statuses) best = std::max(best, status.accuracy);
    return best;
}

// Prints what they said last of their links.
int print_plan_of_run(const Watcher& run, const WatchOptions& options) {
    const auto elements = options.elements > 0 ? std::optional(options.elements)
                                               : planning::vector_elements(run.run());
    if (!elements)
        return peer::report(peer::Failure{
            peer::ExitCode::bad_input,
            "how large the run's model is cannot be told on this machine: say it with --elements; "
            "'dedloc check RUN.toml' on a machine that trains counts the parameters"});
    const double end = run.wall_now() + (options.seconds > 0 ? options.seconds : plan_timeout_s);
    std::vector<membership::Status> peers;
    while (peer::interrupts() == 0 && run.wall_now() < end) {
        std::this_thread::sleep_for(monitor::frame_time);
        if (auto now = run.statuses(); std::ranges::any_of(now, planning::is_planned))
            peers = std::move(now);
    }
    const bool trains = std::ranges::any_of(peers, [](const membership::Status& peer) {
        return planning::is_planned(peer) && peer.role == membership::Role::trainer;
    });
    if (!trains)
        return peer::report(
            peer::Failure{peer::ExitCode::unreachable,
                          "no trainer of the run has said anything yet, so there is nothing to "
                          "plan: try again when one trains, or with a longer --seconds"});
    peer::say(stdout, "{}", planning::plan_of_run(run.run(), peers, *elements));
    return 0;
}

peer::Outcome<std::unique_ptr<web::RunPage>> page_of(const Watcher& run, const std::string& where) {
    return peer::open_web_page({.where = where,
                                .facts = {.mode = web::Mode::watch,
                                          .version = std::string(base::release),
                                          .run = run.run(),
                                          .started = run.wall_now()}});
}

web::RunSnapshot snapshot_of(const Watcher& run,
                             const monitor::RunView& view,
                             const std::vector<membership::Status>& statuses) {
    web::RunSnapshot snapshot;
    snapshot.view = view;
    snapshot.statuses = statuses;
    snapshot.now = run.wall_now();
    snapshot.grid = run.grid();
    return snapshot;
}

}  // namespace

int run_watch(const WatchOptions& options) {
    // The model alone says how large it is, of some tasks.
    if (options.print_plan && options.elements == 0) peer::become_trainer(options.join_string);
    auto watcher = Watcher::start(options.join_string, options.directory, reach_timeout_s);
    if (!watcher) return peer::report_early(watcher.failure(), options.json);
    peer::catch_interrupts();
    Watcher& run = **watcher;
    if (options.print_plan) return print_plan_of_run(run, options);

    const double started = run.wall_now();
    std::unique_ptr<web::RunPage> page;
    if (!options.web.empty()) {
        auto made = page_of(run, options.web);
        if (!made) return peer::report(made.failure());
        page = std::move(*made);
    }
    std::unique_ptr<monitor::TensorboardWriter> tensorboard;
    if (!options.tensorboard.empty()) {
        auto writer = monitor::TensorboardWriter::open(options.tensorboard, started);
        if (!writer) return peer::report(peer::failure(peer::ExitCode::disk, writer.error()));
        tensorboard = *std::move(writer);
    }
    monitor::RunModel model(run.run(), PeerId(), started);
    monitor::Screen screen(STDOUT_FILENO,
                           monitor::screen_options_for(STDOUT_FILENO, options.plain));
    if (page && !options.json) screen.say("the run's page: " + page->address());
    monitor::RunView last_alive = model.view();
    peer::GridLines grid;
    bool has_grid = false;
    double accuracy = 0;
    WatchTimeout timeout(started);
    using End = WatchTimeout::End;
    End end = End::none;
    while (peer::interrupts() == 0) {
        const double now = run.wall_now();
        for (const events::Event& event : run.take_events()) {
            model.add(event);
            if (page) page->store().record(event);
        }
        const std::vector<membership::Status> statuses = run.statuses();
        accuracy = std::max(accuracy, best_accuracy(statuses));
        model.update(statuses, now);
        monitor::RunView view = model.view();
        if (const auto seen = run.grid()) {
            grid.update(*seen, now);
            view.more = grid.lines(now, peer::names_of(statuses));
            has_grid = true;
        }
        if (page) page->update(snapshot_of(run, view, statuses));
        if (tensorboard) tensorboard->see(view, now);
        screen.show(view);
        const bool answered = view.live_peers() > 0;
        if (answered) last_alive = view;
        const bool at_end = run.run().stop.is_met(view.step, view.samples_total, accuracy);
        end = timeout.observe(now, answered, at_end);
        if (end != End::none || (options.seconds > 0 && now - started >= options.seconds)) break;
        std::this_thread::sleep_for(monitor::frame_time);
    }
    if (page) page->end(end == End::over ? "the run is over" : "the observer has ended");
    screen.release();
    if (end == End::over) screen.say("the run is over");
    if (end == End::out_of_reach) screen.say("no peer of the run answers any more");
    nlohmann::ordered_json json = json_of(last_alive);
    if (has_grid) json["experts"] = grid.json(run.wall_now());
    if (page) json["web"] = page->address();
    watcher->reset();
    if (options.json) screen.print(monitor::json_line(json));
    return end == End::out_of_reach ? static_cast<int>(peer::ExitCode::unreachable) : 0;
}

}  // namespace dedloc::cli
