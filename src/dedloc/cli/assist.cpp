// dedloc assist: lends a run this machine's line. It reduces the parts that plans give it, and
// needs neither GPU nor libtorch nor the model: it holds no state, votes on nothing and leads
// nothing.
//
// Thread: the main thread; it draws and waits, the network thread talks.

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>
#include <utility>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/trainer_watch.h"
#include "dedloc/cli/use_watch.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/cap_schedule.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/peer_run.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/train/host_access.h"

namespace dedloc::cli {
namespace {

constexpr Duration leave_grace_period = 5s;  // for members that still read averages from us
constexpr double megabit_bytes = 1e6 / 8;
constexpr double mebibyte = 1 << 20;

class AssistRun {
  public:
    AssistRun(const AssistOptions& options, peer::OpenedNode opened, collab::Invitation invitation)
        : options_(options),
          opened_(std::move(opened)),
          node_(*opened_.node),
          service_(node_.add<collab::CollaborationService>(node_)),
          id_(node_.id()),
          invitation_(std::move(invitation)),
          screen_(STDOUT_FILENO, screen_options(options)),
          model_(invitation_.run, id_, node_.clock().wall_now()),
          started_(peer::steady_seconds()),
          trainers_(started_) {}

    int run();

  private:
    static monitor::ScreenOptions screen_options(const AssistOptions& options) {
        monitor::ScreenOptions screen = monitor::screen_options_for(STDOUT_FILENO, options.plain);
        screen.silent = options.quiet;
        return screen;
    }
    std::string file(std::string_view name) const {
        return opened_.directory + "/" + std::string(name);
    }

    // A certificate of the run has come. Before that its step is not known, and a join string would
    // name none that newcomers can trust.
    bool knows_the_step() const { return !status_.certificate.is_zero(); }

    std::optional<peer::Failure> begin();
    void poll();
    void tell_of_trainers();
    void tell_of_use();
    void refresh_join_string();
    void tell_caps(const runtime::LineCaps& caps);
    std::optional<peer::Failure> assist();
    void print(const std::optional<peer::Failure>& failed);

    AssistOptions options_;
    peer::OpenedNode opened_;
    collab::Node& node_;  // until a begin that failed
    collab::CollaborationService& service_;
    PeerId id_;
    collab::Invitation invitation_;
    monitor::Screen screen_;
    monitor::RunModel model_;
    double started_;
    TrainerWatch trainers_;
    std::unique_ptr<monitor::EventLog> log_;
    monitor::EventMailbox mailbox_;
    std::unique_ptr<monitor::EventFan> fan_;
    bool begun_ = false;
    bool interrupted_ = false;
    membership::Status status_;
    TrainerWatch::News trainer_news_ = TrainerWatch::News::none;
    averaging::AggregatorWork work_;
    UseWatch use_;
    double join_refreshed_ = -peer::join_refresh_s;
    bool join_problem_told_ = false;
    runtime::LineCaps caps_told_{};
};

std::optional<peer::Failure> AssistRun::begin() {
    auto log = monitor::EventLog::open(file(peer::events_file));
    if (!log) return peer::failure(peer::ExitCode::disk, log.error());
    log_ = *std::move(log);
    fan_ =
        std::make_unique<monitor::EventFan>(std::vector<events::EventSink*>{log_.get(), &mailbox_});
    const Ok copied =
        peer::write_private_file(file(peer::run_copy_file), run::to_toml(invitation_.run));
    if (!copied) return peer::failure(peer::ExitCode::disk, copied.error());
    collab::CollaborationOptions options;
    options.run = invitation_.run;
    invitation_.hand_over(options);
    options.role = membership::Role::aggregator;
    options.name = options_.name.empty() ? peer::host_name() : options_.name;
    options.join_timeout = peer::reach_timeout;
    options.upload_max = options_.plan_up * megabit_bytes;
    options.download_max = options_.plan_down * megabit_bytes;
    options.reduce_bytes_max = static_cast<std::size_t>(options_.memory_mib) << 20;
    // Averages of ours, for members that missed them; the members have them as well.
    options.kept_bytes_max = options.reduce_bytes_max;
    options.kept_bytes_most = replica::kept_averages_most(runtime::memory_allowed());
    const auto begun = service_.begin(std::move(options), fan_.get());
    if (!begun) return peer::failure(begun.error());
    begun_ = true;
    if (!options_.json) screen_.say(fmt::format("this peer's folder: {}", opened_.directory));
    screen_.say(
        fmt::format("assisting {}: reducing what its plans give to this machine. Ctrl-C "
                    "leaves.",
                    invitation_.run.name));
    return std::nullopt;
}

void AssistRun::tell_caps(const runtime::LineCaps& caps) {
    caps_told_ = caps;
    const events::Event event = peer::caps_event(caps, node_.clock().wall_now());
    screen_.say(event.text);
    fan_->record(event);
}

void AssistRun::poll() {
    std::vector<membership::Status> statuses;
    runtime::LineCaps caps;
    node_.run_on_network_thread([&] {
        const collab::Collaboration& collaboration = service_.collaboration();
        statuses = collaboration.peers();
        status_ = collaboration.status();
        work_ = collaboration.assistance();
        caps = node_.caps();
    });
    if (caps != caps_told_) tell_caps(caps);
    const double now = peer::steady_seconds();
    trainer_news_ = trainers_.observe(now, statuses);
    for (const events::Event& event : mailbox_.take()) {
        if (event.is<events::PeerLeft>()) trainers_.left(event.peer);
        model_.add(event);
    }
    model_.update(std::move(statuses), node_.clock().wall_now());
    screen_.show(model_.view());
}

void AssistRun::tell_of_trainers() {
    const double now = peer::steady_seconds();
    if (trainer_news_ == TrainerWatch::News::silent)
        screen_.say(fmt::format("no trainer heard of for {:.0f} s; waiting for one (Ctrl-C leaves)",
                                trainers_.silent_for(now)));
    if (trainer_news_ == TrainerWatch::News::back) screen_.say("trainers are heard of again");
}

void AssistRun::tell_of_use() {
    if (!knows_the_step()) return;
    const UseWatch::News news = use_.observe(status_.step, work_.parts);
    if (news == UseWatch::News::unused)
        screen_.say(
            fmt::format("for {} steps no plan has given this machine anything to reduce: rounds "
                        "would hardly be faster, as the trainers' lines are not what limits them, "
                        "or this one is no faster. It goes on offering; `{} join STRING` uses its "
                        "processor instead",
                        use_.steps_without(status_.step),
                        peer::called_as()));
    if (news == UseWatch::News::used) screen_.say("plans give this machine parts to reduce now");
}

// For `dedloc invite`, as every peer does.
void AssistRun::refresh_join_string() {
    if (!knows_the_step() || peer::steady_seconds() - join_refreshed_ < peer::join_refresh_s)
        return;
    join_refreshed_ = peer::steady_seconds();
    const std::string text =
        node_.run_on_network_thread([this] { return service_.collaboration().join_string(); });
    const Ok written = peer::write_private_file(file(peer::join_file), text + "\n");
    if (written || std::exchange(join_problem_told_, true)) return;
    fan_->record({.time = node_.clock().wall_now(),
                  .step = status_.step,
                  .text = written.error().message(),
                  .what = events::JoinFileFailed{}});
}

std::optional<peer::Failure> AssistRun::assist() {
    while (!service_.collaboration().stopped()) {
        poll();
        if (peer::interrupts() > 0) {
            interrupted_ = true;
            break;
        }
        tell_of_trainers();
        tell_of_use();
        refresh_join_string();
        if (trainer_news_ == TrainerWatch::News::gone)
            return peer::Failure{
                peer::ExitCode::unreachable,
                fmt::format("no trainer of the run was heard of for {:.0f} s; assist "
                            "again with a fresh join string when it goes on",
                            trainers_.silent_for(peer::steady_seconds()))};
        std::this_thread::sleep_for(monitor::frame_time);
    }
    return std::nullopt;
}

void AssistRun::print(const std::optional<peer::Failure>& failed) {
    if (!options_.json) {
        if (!failed)
            screen_.say(
                fmt::format("{} at step {}: reduced {} parts in {} rounds; held at most {:.1f} MiB",
                            interrupted_ ? "left" : "the run is over",
                            status_.step,
                            work_.parts,
                            work_.rounds,
                            static_cast<double>(work_.memory_most) / mebibyte));
        return;
    }
    nlohmann::ordered_json json{{"ok", !failed}};
    if (failed) json["error"] = failed->message;
    json["run"] = invitation_.run.name;
    json["run_hash"] = run::run_hash(invitation_.run).hex();
    json["peer"] = id_.text();
    json["step"] = status_.step;
    json["rounds"] = work_.rounds;
    json["parts"] = work_.parts;
    json["upload_bytes_per_s"] = status_.upload_bytes_per_s;
    json["download_bytes_per_s"] = status_.download_bytes_per_s;
    json["memory_bytes_most"] = work_.memory_most;
    json["memory_waiting_bound_bytes"] = work_.memory_bound;
    json["left"] = interrupted_;
    json["directory"] = opened_.directory;
    json["seconds"] = peer::steady_seconds() - started_;
    screen_.print(monitor::json_line(json));
}

int AssistRun::run() {
    std::optional<peer::Failure> failed = begin();
    peer::catch_interrupts();  // before there is nothing to hand over
    if (!failed) failed = assist();
    if (begun_) {
        if (interrupted_) screen_.say("leaving … (Ctrl-C again: end at once)");
        service_.leave(leave_grace_period);
        poll();
        ::unlink(file(peer::join_file).c_str());
    } else {
        opened_.node.reset();  // it would tell `fan_` what happens until the very end
    }
    screen_.release();
    if (log_) log_->flush();
    const int code = failed ? peer::report(*failed) : 0;
    print(failed);
    return code;
}

}  // namespace

int run_assist(const AssistOptions& options) {
    const auto join = run::parse_join_string(options.join_string);
    if (!join) return peer::report_early(peer::failure(join.error()), options.json);
    auto opened = peer::open_node(join->run, peer::opening_options(options));
    if (!opened) return peer::report_early(opened.failure(), options.json);
    auto reached = train::reach_run(*opened->node, options.join_string, peer::reach_timeout);
    if (!reached) return peer::report_early(peer::failure(reached.error()), options.json);
    collab::Invitation& invitation = reached->invitation;
    AssistRun run(options, std::move(*opened), std::move(invitation));
    return run.run();
}

}  // namespace dedloc::cli
