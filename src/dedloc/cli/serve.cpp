// dedloc serve: lends a machine to a run as a server of experts. It takes over what nobody serves,
// keeps copies of what others serve, and needs neither the model nor its data.
//
// Thread: the main thread; it waits and tells, the network thread talks, a thread of the service
// computes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/serve_words.h"
#include "dedloc/cli/trainer_watch.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/expert_service.h"
#include "dedloc/experts/update_pool.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/serve_memory.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/heap.h"
#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/train/host_access.h"

namespace dedloc::cli {
namespace {

constexpr auto serve_look_time = std::chrono::milliseconds(200);
constexpr double tell_every_s = 10;
// Kernels that oneDNN keeps, each for one size of a batch: of 1,024, its own choice, they took 1.3
// GiB here, far more than the experts.
constexpr const char* kernels_max = "16";
constexpr Duration hand_over_timeout = 60s;
constexpr std::size_t pooled_members_min = 3;  // as many as a step of a robust run takes

class ServeRun {
  public:
    ServeRun(const ServeOptions& options,
             peer::OpenedNode opened,
             collab::Invitation invitation,
             tasks::RunExperts experts,
             peer::ServeMemory memory)
        : options_(options),
          memory_(std::move(memory)),
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
    // Peers that the network thread knows to take no part in the training.
    using Onlookers = std::set<PeerId>;

    experts::HostOptions host_options(const tasks::RunExperts& experts) const;
    experts::HostListener listener();
    std::optional<peer::Failure> begin();
    void serve();
    void look_at(const std::vector<membership::Status>& statuses);
    void tell(const collab::ExpertReport& report);
    void tell_of_members(const collab::ExpertReport& report);
    void record(events::Any what, std::string text, const PeerId& peer = {});
    void print(const collab::ExpertReport& report) const;
    bool is_silent() const { return options_.json || options_.quiet; }

    ServeOptions options_;
    peer::ServeMemory memory_;
    monitor::EventMailbox mailbox_;  // outlives the node, as the log does
    std::unique_ptr<monitor::EventLog> log_;
    std::unique_ptr<monitor::EventFan> fan_;
    std::shared_ptr<Onlookers> onlookers_ = std::make_shared<Onlookers>();
    peer::OpenedNode opened_;
    collab::Node& node_;
    collab::Invitation invitation_;
    experts::ExpertGrid grid_;
    double started_;
    TrainerWatch trainers_;
    collab::ExpertService* service_ = nullptr;
    collab::CollaborationService* run_ = nullptr;
    std::map<PeerId, std::string> names_;
    MembersTold members_told_;
    bool clock_told_ = false;
    double told_ = 0;
    std::uint64_t calls_told_ = 0;
    double best_calls_per_s_ = 0;
    bool interrupted_ = false;
};

experts::HostOptions ServeRun::host_options(const tasks::RunExperts& experts) const {
    const experts::MemoryPlan& plan = memory_.plan();
    experts::HostOptions options;
    options.grid = experts.grid;
    options.keepers = experts.keepers;
    options.experts_max = plan.experts_max;
    options.kept_max = experts.grid.experts_count();  // on disk
    options.has_room = [this] { return memory_.room_for_an_expert(); };
    options.server.replies_bytes_max = plan.replies_bytes_max;
    experts::BatcherLimits& batcher = options.server.batcher;
    batcher.batch_rows_max = experts.update_batch;
    batcher.queued_bytes_max = plan.queued_bytes_max;
    batcher.may_compute = [this] { return memory_.room_for_a_batch(); };
    if (invitation_.run.robust) batcher.updates.pooled_min = pooled_members_min;
    batcher.updates.trains = [onlookers = onlookers_](const PeerId& member) {
        return !onlookers->contains(member);
    };
    return options;
}

// Called on the network thread.
experts::HostListener ServeRun::listener() {
    return [this](std::string_view what, const std::string& uid) {
        std::string text = fmt::format("{} {}", what, uid);
        if (!is_silent()) peer::say(stdout, "{}\n", text);
        record(events::ExpertMoved{.expert = uid}, std::move(text));
    };
}

void ServeRun::record(events::Any what, std::string text, const PeerId& peer) {
    fan_->record({.time = node_.clock().wall_now(),
                  .peer = peer,
                  .text = std::move(text),
                  .what = std::move(what)});
}

std::optional<peer::Failure> ServeRun::begin() {
    auto log = monitor::EventLog::open(opened_.directory + "/" + std::string(peer::events_file));
    if (!log) return peer::failure(peer::ExitCode::disk, log.error());
    log_ = *std::move(log);
    fan_ =
        std::make_unique<monitor::EventFan>(std::vector<events::EventSink*>{log_.get(), &mailbox_});
    collab::CollaborationOptions options;
    options.run = invitation_.run;
    invitation_.hand_over(options);
    options.role = membership::Role::observer;  // told to others as its other service
    options.name = options_.name.empty() ? peer::host_name() : options_.name;
    options.join_timeout = peer::reach_timeout;
    const auto begun = run_->begin(std::move(options), fan_.get());
    if (!begun) return peer::failure(begun.error());
    const experts::MemoryPlan& plan = memory_.plan();
    const std::string text = fmt::format(
        "serving experts of {} ({} in the grid {}): up to {} of them in the {} MiB "
        "lent, of which {} are for computing. Ctrl-C hands them over and leaves.",
        invitation_.run.name,
        grid_.experts_count(),
        grid_.name,
        plan.experts_max,
        memory_.lent() >> 20,
        plan.work >> 20);
    record(events::Serving{.experts_max = plan.experts_max,
                           .lent_bytes = memory_.lent(),
                           .work_bytes = plan.work,
                           .program_bytes = memory_.program_data()},
           text);
    service_->start();
    if (!options_.json) peer::say(stdout, "{}\n", text);
    return std::nullopt;
}

void ServeRun::look_at(const std::vector<membership::Status>& statuses) {
    Onlookers onlookers;
    for (const membership::Status& status : statuses) {
        names_[status.peer] = status.name;
        if (status.role != membership::Role::trainer) onlookers.insert(status.peer);
    }
    node_.run_on_network_thread([&] { *onlookers_ = std::move(onlookers); });
}

// The members whose gradients an expert was spared.
void ServeRun::tell_of_members(const collab::ExpertReport& report) {
    for (const auto& [peer, updates] : report.members) {
        const std::string text = members_told_.observe(peer, names_[peer], updates);
        if (text.empty()) continue;
        if (!is_silent()) peer::say(stdout, "{}\n", text);
        record(events::GradientsBounded{.calls = updates.calls,
                                        .shortened = updates.shortened,
                                        .withheld = updates.withheld},
               text,
               peer);
    }
}

void ServeRun::tell(const collab::ExpertReport& report) {
    const double now = peer::steady_seconds();
    if (now - told_ < tell_every_s) return;
    const double calls_per_s =
        told_ == 0 ? 0 : static_cast<double>(report.calls.calls - calls_told_) / (now - told_);
    best_calls_per_s_ = std::max(best_calls_per_s_, calls_per_s);
    told_ = now;
    calls_told_ = report.calls.calls;
    tell_of_members(report);
    if (is_silent()) return;
    if (const std::string clock = words_of_clock(report.clock_difference_s);
        !clock.empty() && !std::exchange(clock_told_, true))
        peer::say(stdout, "{}\n", clock);
    peer::say(
        stdout, "{}\n", words_of_report(report, calls_per_s, memory_.taken(), memory_.lent()));
    if (report.serves.empty())
        peer::say(stdout, "  serves none: {}\n", why_idle(report, memory_.plan().experts_max));
}

void ServeRun::serve() {
    while (peer::interrupts() == 0) {
        const double now = peer::steady_seconds();
        if (options_.seconds > 0 && now - started_ >= options_.seconds) break;
        std::vector<membership::Status> statuses =
            node_.run_on_network_thread([&] { return run_->collaboration().peers(); });
        look_at(statuses);
        for (const events::Event& event : mailbox_.take())
            if (event.is<events::PeerLeft>()) trainers_.left(event.peer);
        if (trainers_.observe(now, statuses) == TrainerWatch::News::gone) {
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
    json["experts_max"] = memory_.plan().experts_max;
    json["memory_bytes"] = memory_.lent();
    json["work_bytes"] = memory_.plan().work;
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
    if (interrupted_) service_->leave(hand_over_timeout);
    const collab::ExpertReport last = service_->report();
    run_->leave(peer::goodbye_max);
    print(last);
    return 0;
}

// The task says them, or the run file of a loop of somebody's own.
Result<tasks::RunExperts> experts_of(const run::RunFile& run, int threads) {
    const tasks::TaskKind* kind = tasks::find_task(run.task.kind);
    if (kind && kind->experts) return kind->experts(run.task, {.threads_count = threads});
    if (!kind && run.task.section(tasks::experts_section_name) != nullptr)
        return tasks::own_loop_experts(run.task);
    return make_error(ErrorKind::bad_input,
                      "the run {} trains '{}', which has no experts to serve",
                      run.name,
                      run.task.kind);
}

}  // namespace

int run_serve(const ServeOptions& options) {
    peer::end_when_interrupted("dedloc: interrupted before anything was served\n");
    // Read by oneDNN, and by libtorch's own cache before it, when they are first used.
    for (const char* name : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"})
        ::setenv(name, kernels_max, /*overwrite=*/0);
    runtime::keep_no_freed_memory();
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::report_early(peer::failure(join.error()), options.json);
    auto opened = peer::open_node(join->run, peer::opening_options(options));
    if (!opened) return peer::report_early(opened.failure(), options.json);
    auto reached = train::reach_run(*opened->node, options.join_string, peer::reach_timeout);
    if (!reached) return peer::report_early(peer::failure(reached.error()), options.json);
    collab::Invitation& invitation = reached->invitation;
    auto experts = experts_of(invitation.run, options.threads);
    if (!experts) return peer::report_early(peer::failure(experts.error()), options.json);
    // In robust runs gradients wait for those of other members.
    const std::uint64_t beside =
        invitation.run.robust ? experts::UpdatePool::members_max * experts->parameters_bytes : 0;
    auto memory = peer::ServeMemory::reserve(
        *experts, static_cast<std::uint64_t>(options.memory_mib) << 20, beside);
    if (!memory) return peer::report_early(memory.failure(), options.json);
    peer::catch_interrupts();
    ServeRun run(options,
                 std::move(*opened),
                 std::move(invitation),
                 *std::move(experts),
                 std::move(*memory));
    return run.run();
}

}  // namespace dedloc::cli
