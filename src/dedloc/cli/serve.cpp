// dedloc serve: lends a machine to a run as a server of experts. It takes over what nobody serves,
// keeps copies of what others serve, and needs neither the model nor its data.
//
// Thread: the main thread; it waits and tells, the network thread talks, a thread of the service
// computes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/trainer_watch.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/expert_service.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::cli {
namespace {

constexpr auto serve_look_time = std::chrono::milliseconds(200);
constexpr double tell_every_s = 10;
// Kernels that oneDNN keeps, each for one size of a batch: of 1,024, its own choice, they took 1.3
// GiB here, far more than the experts.
constexpr const char* kernels_max = "16";
constexpr int arenas_max = 2;  // malloc's, each with holes of its own
constexpr Duration hand_over_patience = 60s;

std::string mebibytes_of(std::uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

class ServeRun {
  public:
    ServeRun(const ServeOptions& options,
             peer::OpenedNode opened,
             collab::Invitation invitation,
             tasks::RunExperts experts)
        : options_(options),
          opened_(std::move(opened)),
          node_(*opened_.node),
          invitation_(std::move(invitation)),
          grid_(experts.grid),
          started_(peer::steady_seconds()),
          trainers_(started_) {
        node_.join_table();
        service_ = &node_.add<collab::ExpertService>(
            node_, std::move(experts.factory), host_options(experts), listener());
        run_ = &node_.add<collab::CollaborationService>(node_);
    }

    int run();

  private:
    experts::HostOptions host_options(const tasks::RunExperts& experts) const;
    experts::HostListener listener() const;
    std::optional<peer::Failure> begin();
    void serve();
    void tell(const collab::ExpertReport& report);
    void print(const collab::ExpertReport& report) const;

    ServeOptions options_;
    monitor::EventMailbox mailbox_;  // outlives the node
    peer::OpenedNode opened_;
    collab::Node& node_;
    collab::Invitation invitation_;
    experts::ExpertGrid grid_;
    double started_;
    TrainerWatch trainers_;
    collab::ExpertService* service_ = nullptr;
    collab::CollaborationService* run_ = nullptr;
    double told_ = 0;
    std::uint64_t calls_told_ = 0;
    double best_calls_per_s_ = 0;
    bool interrupted_ = false;
};

experts::HostOptions ServeRun::host_options(const tasks::RunExperts& experts) const {
    experts::HostOptions options;
    options.grid = experts.grid;
    options.keepers = experts.keepers;
    options.server.batcher.batch_rows_max = experts.update_batch;
    const std::uint64_t room = static_cast<std::uint64_t>(options_.memory_mib) << 20;
    options.experts_max = std::max<std::uint64_t>(1, room / experts.bytes_of_one);
    options.kept_max = experts.grid.experts_count();  // on disk
    return options;
}

// Called on the network thread.
experts::HostListener ServeRun::listener() const {
    const bool silent = options_.json || options_.quiet;
    return [silent](std::string_view what, const std::string& uid) {
        if (!silent) peer::say(stdout, "{} {}\n", what, uid);
    };
}

std::optional<peer::Failure> ServeRun::begin() {
    collab::Options options;
    options.run = invitation_.run;
    options.secret = invitation_.secret;
    options.bootstrap = invitation_.bootstrap;
    options.role = membership::Role::observer;  // told to others as its other service
    options.name = options_.name.empty() ? peer::host_name() : options_.name;
    options.join_patience = peer::reach_patience;
    const auto begun = run_->begin(std::move(options), &mailbox_);
    if (!begun) return peer::failure(begun.error());
    service_->start();
    if (!options_.json)
        peer::say(
            stdout,
            "serving experts of {} ({} in the grid {}), as many as fit in {} MiB. Ctrl-C hands "
            "them over and leaves.\n",
            invitation_.run.name,
            grid_.experts_count(),
            grid_.name,
            options_.memory_mib);
    return std::nullopt;
}

void ServeRun::tell(const collab::ExpertReport& report) {
    const double now = peer::steady_seconds();
    if (now - told_ < tell_every_s) return;
    const double calls_per_s =
        told_ == 0 ? 0 : static_cast<double>(report.calls.calls - calls_told_) / (now - told_);
    best_calls_per_s_ = std::max(best_calls_per_s_, calls_per_s);
    told_ = now;
    calls_told_ = report.calls.calls;
    if (options_.json || options_.quiet) return;
    peer::say(stdout,
              "{} experts, {}; {:.1f} calls/s; {} calls and {} rows answered, {} updates; keeps {} "
              "copies; refused {}, overloaded {}\n",
              report.serves.size(),
              mebibytes_of(report.bytes),
              calls_per_s,
              report.calls.calls,
              report.calls.rows,
              report.calls.updates,
              report.keeps,
              report.requests.refused,
              report.calls.overloaded);
}

void ServeRun::serve() {
    while (peer::interrupts() == 0) {
        const double now = peer::steady_seconds();
        if (options_.seconds > 0 && now - started_ >= options_.seconds) break;
        std::vector<membership::Status> statuses =
            node_.run_on_network_thread([&] { return run_->collaboration().peers(); });
        for (const events::Event& event : mailbox_.take())
            if (event.is<events::PeerLeft>()) trainers_.left(event.peer);
        if (trainers_.look(now, statuses) == TrainerWatch::News::gone) {
            if (!options_.json)
                peer::say(stdout,
                          "no trainer for {:.0f} s: the run is over\n",
                          trainers_.silent_for(now));
            break;
        }
        tell(service_->report());
        std::this_thread::sleep_for(serve_look_time);
    }
    interrupted_ = peer::interrupts() > 0;
}

void ServeRun::print(const collab::ExpertReport& report) const {
    if (!options_.json) {
        peer::say(stdout,
                  "answered {} calls of {} rows, {} updates; took over {}, handed over {}\n",
                  report.calls.calls,
                  report.calls.rows,
                  report.calls.updates,
                  report.host.begun + report.host.taken_over,
                  report.host.handed_over);
        return;
    }
    nlohmann::ordered_json json{{"ok", true}};
    json["peer"] = node_.id().text();
    json["calls"] = report.calls.calls;
    json["rows"] = report.calls.rows;
    json["updates"] = report.calls.updates;
    json["calls_per_s_best"] = best_calls_per_s_;
    json["overloaded"] = report.calls.overloaded;
    json["refused"] = report.requests.refused;
    json["begun"] = report.host.begun;
    json["taken_over"] = report.host.taken_over;
    json["given_up"] = report.host.given_up;
    json["handed_over"] = report.host.handed_over;
    json["updates_lost"] = report.host.updates_lost;
    json["left"] = interrupted_;
    json["seconds"] = peer::steady_seconds() - started_;
    peer::say(stdout, "{}\n", monitor::json_line(json));
}

int ServeRun::run() {
    if (const auto failed = begin()) return peer::report_early(*failed, options_.json);
    serve();
    // A run that is over needs its experts no more.
    if (interrupted_) service_->leave(hand_over_patience);
    const collab::ExpertReport last = service_->report();
    run_->leave(peer::goodbye_max);
    print(last);
    return 0;
}

}  // namespace

int run_serve(const ServeOptions& options) {
    // Read by oneDNN, and by libtorch's own cache before it, when they are first used.
    for (const char* name : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"})
        ::setenv(name, kernels_max, /*overwrite=*/0);
    ::mallopt(M_ARENA_MAX, arenas_max);
    peer::catch_interrupts();
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::report_early(peer::failure(join.error()), options.json);
    auto opened = peer::open_node(join->run, peer::opening_options(options));
    if (!opened) return peer::report_early(opened.failure(), options.json);
    auto invitation =
        collab::fetch_invitation(*opened->node, options.join_string, peer::reach_patience);
    if (!invitation) return peer::report_early(peer::failure(invitation.error()), options.json);
    const run::TaskConfig& task = invitation->run.task;
    const tasks::TaskKind* kind = tasks::find_task(task.kind);
    if (!kind || !kind->experts)
        return peer::report_early(
            peer::Failure{peer::ExitCode::bad_input,
                          fmt::format("the run {} trains '{}', which has no experts to serve",
                                      invitation->run.name,
                                      task.kind)},
            options.json);
    auto experts = kind->experts(task, {.threads_count = options.threads});
    if (!experts) return peer::report_early(peer::failure(experts.error()), options.json);
    ServeRun run(options, std::move(*opened), *std::move(invitation), *std::move(experts));
    return run.run();
}

}  // namespace dedloc::cli
