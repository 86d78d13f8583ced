// dedloc replay: the event log of a peer's folder in the web page, at any speed.

#include "dedloc/web/replay.h"

#include <chrono>
#include <thread>

#include "dedloc/base/release.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/tensorboard_writer.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/web/run_page.h"
#include "dedloc/web/sheets.h"

namespace dedloc::cli {
namespace {

constexpr auto replay_look_time = std::chrono::milliseconds(100);
constexpr std::size_t events_at_once = monitor::queued_records_max / 2;

// Writes all of the log at once: TensorBoard has its own way to go through time.
Ok write_tensorboard(const std::string& log_folder, const std::string& folder) {
    DEDLOC_TRY(const auto writer, monitor::TensorboardWriter::open(folder, peer::wall_seconds()));
    std::size_t count = 0;
    return monitor::read_events(log_folder, [&](const events::Event& event) {
        writer->record(event);
        if (++count % events_at_once == 0) writer->flush();
    });
}

}  // namespace

int run_replay(const ReplayOptions& options) {
    auto place = web::server_options(options.web);
    if (!place) return peer::report(peer::failure(place.error()));
    place->sheets_folder = web::sheets_folder_of(options.folder);
    const auto run = given_run_file(options.folder + "/" + std::string(peer::run_copy_file));
    if (!run) return peer::report(peer::failure(run.error()));
    if (!options.tensorboard.empty())
        if (const Ok written = write_tensorboard(options.folder, options.tensorboard); !written)
            return peer::report(peer::failure(peer::ExitCode::disk, written.error()));
    auto replay =
        web::Replay::open(options.folder, *run, std::string(base::release), options.speed);
    if (!replay) return peer::report(peer::failure(replay.error()));
    auto server = web::Server::start(
        (*replay)->store(), {{"replay", (*replay)->action()}}, *std::move(place));
    if (!server) return peer::report(peer::failure(peer::ExitCode::port, server.error()));
    peer::catch_interrupts();
    peer::say(stdout, "the run's page: {} (Ctrl-C ends it)\n", (*server)->address());
    std::fflush(stdout);
    const double until = peer::steady_seconds() + options.seconds;
    while (peer::interrupts() == 0 && (options.seconds == 0 || peer::steady_seconds() < until))
        std::this_thread::sleep_for(replay_look_time);
    (*replay)->store().end("the replay has ended");
    return 0;
}

}  // namespace dedloc::cli
