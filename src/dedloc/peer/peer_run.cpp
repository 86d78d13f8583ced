#include "dedloc/peer/peer_run.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "dedloc/base/printable.h"
#include "dedloc/base/release.h"
#include "dedloc/collab/node_traffic.h"
#include "dedloc/fleet/notice_watch.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/monitor/tensorboard_writer.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/cap_hint.h"
#include "dedloc/peer/cap_schedule.h"
#include "dedloc/peer/data_terms.h"
#include "dedloc/peer/data_through_run.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/grid_lines.h"
#include "dedloc/peer/grid_watch.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/join_string_file.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/organiser_wish.h"
#include "dedloc/peer/peer_control.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/prompts.h"
#include "dedloc/peer/quiet_failures.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/run_listing.h"
#include "dedloc/peer/saved_states.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/peer/web_page.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/run_hints.h"
#include "dedloc/run/vector_codecs.h"
#include "dedloc/security/hash.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/train/host_access.h"
#include "dedloc/train/passing_thread.h"
#include "dedloc/train/recomputable.h"
#include "dedloc/train/trainer.h"

namespace dedloc::peer {

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

WallSeconds wall_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string host_name() {
    char name[64] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "peer";
}

namespace {

constexpr double gradient_timeout_s = 1;     // after Ctrl-C, once the state is saved
constexpr Duration leave_grace_period = 5s;  // after Ctrl-C: for a step that takes our samples
constexpr Duration notice_timeout = 20s;     // the same after a notice: 30 s are left
constexpr Duration file_timeout = 120s;      // for a file of the run that peers have
constexpr Duration end_timeout = 10s;        // after the end: for peers that still apply it
constexpr double download_tell_s = 10;       // between plain lines about a download

// --flip-signs: a peer that errs on purpose, for tests and experiments of robust runs. It finds
// right what its accomplice, which does the same, hands in.
void flip_signs_in(train::LoopOptions& loop, const PeerOptions& options) {
    const auto flip = [from = options.flips_from](std::uint64_t step, std::span<float> sum) {
        constexpr float factor = -1000;
        if (step < from) return;
        for (float& value : sum) value *= factor;
    };
    loop.falsify = flip;
    loop.falsify_check = [flip, accomplice = options.accomplice](
                             const PeerId& author, std::uint64_t step, std::span<float> sum) {
        if (author.text() == accomplice) flip(step, sum);
    };
}

// The trainer's thread finds a size; the main thread tells of it.
class MicroBatchNews {
  public:
    void found(const train::MicroBatchSearch& search) {
        const std::lock_guard lock(mutex_);
        const double rate = search.samples_per_s();  // 0: not measured
        text_ = fmt::format("computes {} samples at a time{}: {}",
                            search.size(),
                            rate > 0 ? fmt::format(", {:.3g} a second", rate) : "",
                            search.why());
    }
    // Empty: nothing new.
    std::string take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(text_, {});
    }

  private:
    std::mutex mutex_;
    std::string text_;
};

class PeerRun {
  public:
    PeerRun(PeerRunInput input, const PeerOptions& options)
        : input_(std::move(input)),
          options_(options),
          node_(*input_.opened.node),
          service_(node_.add<collab::CollaborationService>(node_)),
          screen_(STDOUT_FILENO, screen_options(options)),
          model_(input_.invitation.run, node_.id(), node_.clock().wall_now()),
          data_(node_, input_.invitation, options_),
          join_string_(node_,
                       service_,
                       screen_,
                       options_,
                       {.path = file(join_file),
                        .way_back = file(way_back_file),
                        .hosts = hosts(),
                        .own_data = own_data(run_file().task),
                        .has_experts = run_file().task.section("experts") != nullptr,
                        .directory = input_.opened.directory}),
          states_(
              service_,
              run_file(),
              options_,
              input_.opened.directory,
              [this](events::Any what, std::string text) {
                  if (view_is_over_) return announce(std::move(what), std::move(text));
                  tell(std::move(what), std::move(text));
              },
              [this](events::Any what, std::string text) {
                  tell(std::move(what), std::move(text));
              }),
          control_(input_.opened.directory,
                   [this](const ControlRequest& request) { return carry_out(request); }) {}
    ~PeerRun() { control_.close(); }

    int run();

  private:
    static monitor::ScreenOptions screen_options(const PeerOptions& options) {
        monitor::ScreenOptions screen = monitor::screen_options_for(STDOUT_FILENO, options.plain);
        screen.silent = options.quiet;
        return screen;
    }

    const run::RunFile& run_file() const { return input_.invitation.run; }
    tasks::TaskOptions task_options() const;
    // Or comes back to a run that it hosted, which may go on without it.
    bool hosts() const { return input_.invitation.bootstrap.empty() || input_.resume; }
    std::string file(std::string_view name) const {
        return input_.opened.directory + "/" + std::string(name);
    }

    std::optional<Failure> start_web();
    std::optional<Failure> start_tensorboard();
    std::optional<Failure> watch_notices();
    web::Actions web_actions();
    Ok carry_out(const ControlRequest& request);
    void update_web(const monitor::RunView& view);
    std::optional<Failure> fetch_missing_files();
    // True: the file is here now. False: no peer has it.
    Outcome<bool> fetch(const tasks::MissingFile& wanted);
    std::optional<Failure> prepare_newcomer();
    Result<std::shared_ptr<const tasks::TrainingTask>> task_here();
    std::optional<Failure> make_task();
    std::optional<Failure> begin();
    collab::CollaborationOptions collaboration_options() const;
    void say_folder();
    bool look_while_joining();
    bool is_to_end();
    void say_of_notices(const std::string& text);
    Result<std::shared_ptr<const state::Snapshot>> first_state(train::SampledModel& learner);
    void start_trainer();
    void tell_micro_batch();
    void tell_caps(const runtime::LineCaps& caps);
    void tell_evaluations();
    void train();
    void poll();
    void look_at(const events::Event& event);
    std::string how_to_come_back() const;
    void refresh_join_string();
    std::optional<Failure> end();
    void wait_for_trainer();
    bool computes_in_vain() const { return trainer_ && !trainer_->has_ended(); }
    void finish_hook(const std::optional<Failure>& failed);
    void print_json(const std::optional<Failure>& failed);
    void tell(events::Any what, std::string text);
    void announce(events::Any what, std::string text);  // to who looks at the screen as well

    PeerRunInput input_;
    PeerOptions options_;
    collab::Node& node_;
    collab::CollaborationService& service_;
    monitor::Screen screen_;
    monitor::RunModel model_;
    std::unique_ptr<monitor::EventLog> log_;
    std::unique_ptr<monitor::TensorboardWriter> tensorboard_;  // null: without
    monitor::EventMailbox mailbox_;
    std::unique_ptr<monitor::EventFan> fan_;
    DataThroughRun data_;
    std::shared_ptr<const tasks::TrainingTask> task_;
    std::unique_ptr<train::SampledModel> learner_;
    std::unique_ptr<train::Trainer> trainer_;
    std::atomic<bool> trainer_ended_ = false;
    MicroBatchNews micro_batch_news_;
    bool interrupted_ = false;

    std::string warm_start_told_;
    JoinStringFile join_string_;
    SavedStates states_;
    QuietFailures quiet_failures_;
    // Why it takes no part any more, and the others do without it: it cannot vote, or it may not.
    std::optional<Failure> put_out_;
    std::vector<membership::Status> last_statuses_;
    std::vector<collab::TrafficWith> carried_;
    GridWatch grid_;
    GridLines grid_lines_;
    std::uint64_t evaluation_told_ = 0;  // step of the newest that another peer made
    runtime::LineCaps caps_told_{};
    double vector_bytes_ = 0;  // of a gradient or an average, encoded
    double download_told_ = -download_tell_s;
    std::uint64_t resumed_at_ = 0;  // the step of the state that a host has at first
    bool view_is_over_ = false;
    bool is_paused_ = false;
    PeerControl control_;
    std::unique_ptr<fleet::NoticeWatch> notices_;  // null: nobody tells
    bool preempted_ = false;
    std::unique_ptr<web::RunPage> web_;  // null: without; it asks `control_`
};

tasks::TaskOptions PeerRun::task_options() const {
    tasks::TaskOptions options{.device = options_.device,
                               .threads_count = options_.threads,
                               .data_directory = options_.data_directory,
                               .progress = task_progress(options_.quiet || options_.json),
                               .node = &node_};
    data_.hand_over(options);
    return options;
}

// Files that peers have not got, either, this machine may still be able to make by itself.
std::optional<Failure> PeerRun::fetch_missing_files() {
    const auto missing = tasks::missing_files(run_file().task, task_options());
    if (!missing) return failure(missing.error());
    for (const tasks::MissingFile& wanted : *missing) {
        auto is_here = fetch(wanted);
        if (!is_here) return is_here.failure();
        if (!*is_here) break;
    }
    return std::nullopt;
}

Outcome<bool> PeerRun::fetch(const tasks::MissingFile& wanted) {
    screen_.say(fmt::format("fetching the {} of the run …", wanted.what));
    const auto fetched = collab::fetch_attachment(
        node_, input_.invitation, wanted.hash, wanted.bytes_max, file_timeout);
    if (!fetched) {
        if (fetched.error().kind() == ErrorKind::denied) return failure(fetched.error());
        announce(events::FileMissing{}, fetched.error().message());
        return false;
    }
    if (const Ok kept = tasks::keep_file(run_file().task, wanted, *fetched); !kept)
        return failure(ExitCode::disk, kept.error());
    tell(events::FileFetched{},
         fmt::format(
             "fetched the {} of the run ({} bytes) from its peers; it is in this user's cache",
             wanted.what,
             fetched->size()));
    return true;
}

// A newcomer needs this before its model is made.
std::optional<Failure> PeerRun::prepare_newcomer() {
    const bool takes_data = data_.is_shared() && !data_.has_own_files();
    if (takes_data) {
        const auto say = [this](const std::string& text) { screen_.say(text); };
        if (auto refused = agree_on_data(run_file().task, options_, input_.opened.directory, say))
            return refused;
    }
    if (auto failed = fetch_missing_files()) return failed;
    if (!takes_data) return std::nullopt;
    if (const Ok taken = data_.take(*fan_); !taken) return failure(taken.error());
    return std::nullopt;
}

// A peer that resumes a run as its host may have no more of the data than it fetched.
Result<std::shared_ptr<const tasks::TrainingTask>> PeerRun::task_here() {
    auto made = tasks::make_task(run_file().task, task_options());
    const bool lacks_data = !made && made.error().kind() == ErrorKind::not_found;
    if (!lacks_data || !input_.resume || !data_.is_shared() || data_.takes()) return made;
    if (!data_.take(*fan_)) return made;
    return tasks::make_task(run_file().task, task_options());
}

std::optional<Failure> PeerRun::make_task() {
    auto made = task_here();
    if (!made) return failure(made.error());
    task_ = *std::move(made);
    if (const Ok fits = check_fits(*task_, MemoryUse::training, memory_available()); !fits)
        return failure(fits.error());
    auto learner = task_->learner(node_.id());
    if (!learner) return failure(learner.error());
    if (const Ok checked = train::check_recomputable(run_file(), **learner, node_.id()); !checked)
        return failure(checked.error());
    learner_ = *std::move(learner);
    return std::nullopt;
}

Result<std::shared_ptr<const state::Snapshot>> PeerRun::first_state(train::SampledModel& learner) {
    if (input_.resume) return input_.resume->state->snapshot;
    const run::Layout layout = learner.layout();
    if (input_.from) {
        DEDLOC_TRY(WarmStart start, warm_start(run_file(), layout, *input_.from));
        warm_start_told_ = std::move(start.told);
        return std::move(start.state);
    }
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner.store(parameters, buffers);
    return replica::initial_state(run_file(), layout, std::move(parameters), std::move(buffers));
}

// Where things are, and that a run begins anew beside what another one left there.
void PeerRun::say_folder() {
    if (!options_.json) screen_.say(fmt::format("this peer's folder: {}", input_.opened.directory));
    if (!hosts() || input_.resume) return;
    for (const std::string& hint : run::hints_about(run_file())) screen_.say(hint);
    const auto saved = state::list_checkpoints(node_.disk(), std::string(checkpoints_folder));
    if (!saved || saved->empty()) return;
    announce(events::EarlierCheckpoints{},
             fmt::format("a new run begins at step 0; checkpoints of an earlier one are there, the "
                         "newest of step {}: `{} host --resume {}` would go on from it",
                         saved->front().step,
                         called_as(),
                         input_.opened.directory));
}

// Every frame until the state is there, which may take hours. False: to be ended.
bool PeerRun::look_while_joining() {
    poll();
    for (const membership::Status& status : last_statuses_) {
        if (status.peer != node_.id() || status.phase != membership::Phase::downloading) continue;
        if (screen_.options().in_place || steady_seconds() - download_told_ < download_tell_s)
            continue;  // the picture shows it
        download_told_ = steady_seconds();
        screen_.say(fmt::format("downloading the state: {:.0f} %, {:.0f} s so far",
                                std::floor(status.progress * 100),
                                steady_seconds() - input_.started));
    }
    return !is_to_end();
}

// Notices are said where there is no view, too: a fleet's log has them then.
void PeerRun::say_of_notices(const std::string& text) {
    if (options_.quiet || options_.json) return say(stderr, "dedloc: {}\n", text);
    screen_.say(text);
}

// Whether this peer is to end: the user wants it, or the machine will be taken away.
bool PeerRun::is_to_end() {
    if (interrupts() > 0) return true;
    if (!notices_ || preempted_) return preempted_;
    if (const std::string problem = notices_->take_problem(); !problem.empty())
        say_of_notices(problem + "; until it is heard only a signal ends this peer in order");
    const std::string notice = notices_->notice();
    if (notice.empty()) return false;
    preempted_ = true;
    say_of_notices(notice);
    return true;
}

collab::CollaborationOptions PeerRun::collaboration_options() const {
    collab::CollaborationOptions options;
    options.run = run_file();
    input_.invitation.hand_over(options);
    options.issuer = input_.issuer;
    options.layout = learner_->layout();
    options.name = options_.name.empty() ? host_name() : options_.name;
    options.kept_bytes_most = replica::kept_averages_most(runtime::memory_allowed());
    options.stubborn = options_.flips_signs;
    if (options_.listed) options.table_use = collab::TableUse::look_up;
    constexpr double bytes_per_megabit = 1e6 / 8;
    options.upload_max = options_.plan_up * bytes_per_megabit;
    options.download_max = options_.plan_down * bytes_per_megabit;
    for (SharedBytes& bytes : task_->files()) {
        const Digest hash = security::sha256(*bytes);
        options.attachments.push_back({.hash = hash, .bytes = std::move(bytes)});
    }
    return options;
}

// ---- what its user sees and asks, on the web page or by commands --------------------------------

web::Actions PeerRun::web_actions() {
    using Json = nlohmann::ordered_json;
    const auto text_in = [](const Json& body, const char* name) {
        const auto found = body.find(name);
        if (found == body.end()) return std::string();
        return found->is_string()   ? found->get<std::string>()
               : found->is_number() ? fmt::format("{}", found->get<double>())
                                    : std::string();
    };
    const auto ask = [this](ControlRequest request) -> Result<Json> {
        DEDLOC_TRY_VOID(control_.ask(request));
        return Json{{"paused", request.action == "pause"}};
    };
    web::Actions actions;
    actions["pause"] = [ask](const Json&) {
        return ask({.action = "pause", .up = {}, .down = {}});
    };
    actions["resume"] = [ask](const Json&) {
        return ask({.action = "resume", .up = {}, .down = {}});
    };
    if (input_.opened.caps)
        actions["limit"] = [this, text_in](const Json& body) -> Result<Json> {
            if (!body.contains("up_mbit") && !body.contains("down_mbit"))
                return make_error(ErrorKind::bad_input, "say up_mbit and down_mbit; 0: no limit");
            DEDLOC_TRY_VOID(control_.ask({.action = "limit",
                                          .up = text_in(body, "up_mbit"),
                                          .down = text_in(body, "down_mbit")}));
            const runtime::LineCaps caps = input_.opened.caps->at(wall_seconds());
            return Json{{"caps", {{"up_mbit", caps.up * 8e-6}, {"down_mbit", caps.down * 8e-6}}}};
        };
    if (states_.hook().wanted())
        actions["publish"] = [this](const Json&) -> Result<Json> {
            DEDLOC_TRY_VOID(control_.ask({.action = "publish", .up = {}, .down = {}}));
            return Json::object();
        };
    if (!input_.issuer) return actions;
    const std::string directory = input_.opened.directory;
    actions["invite"] = [directory, text_in](const Json& body) -> Result<Json> {
        constexpr double invitation_days = 7;
        DEDLOC_TRY(const RunningPeer peer, running_peer(directory));
        auto text = personal_string(
            directory, peer.join_string, text_in(body, "name"), invitation_days, false);
        if (!text) return make_error(ErrorKind::bad_input, "{}", text.failure().message);
        return Json{{"text", *std::move(text)}, {"days", invitation_days}};
    };
    actions["revoke"] = [directory, text_in](const Json& body) -> Result<Json> {
        if (const auto refused = revoke_person(directory, text_in(body, "name")))
            return make_error(ErrorKind::bad_input, "{}", refused->message);
        return Json::object();
    };
    return actions;
}

std::optional<Failure> PeerRun::start_web() {
    if (options_.web.empty()) return std::nullopt;
    auto page = open_web_page({.where = options_.web,
                               .facts = {.mode = web::Mode::peer,
                                         .version = std::string(base::release),
                                         .run = run_file(),
                                         .us = node_.id(),
                                         .started = node_.clock().wall_now()},
                               .directory = input_.opened.directory,
                               .actions = web_actions()});
    if (!page) return page.failure();
    web_ = std::move(*page);
    if (!options_.json) screen_.say("this peer's page: " + web_->address());
    return std::nullopt;
}

std::optional<Failure> PeerRun::start_tensorboard() {
    if (options_.tensorboard.empty()) return std::nullopt;
    auto writer = monitor::TensorboardWriter::open(options_.tensorboard,
                                                   node_.clock().wall_now(),
                                                   [this] { return collab::traffic_now(node_); });
    if (!writer) return failure(ExitCode::disk, writer.error());
    tensorboard_ = *std::move(writer);
    return std::nullopt;
}

std::optional<Failure> PeerRun::watch_notices() {
    if (options_.preemption_notice.empty()) return std::nullopt;
    const auto place = fleet::parse_notice_place(options_.preemption_notice);
    if (!place) return failure(place.error());
    notices_ = std::make_unique<fleet::NoticeWatch>(*place);
    return std::nullopt;
}

// Another thread or a command asks for it; the main thread carries it out.
Ok PeerRun::carry_out(const ControlRequest& request) {
    if (request.action == "publish") return states_.ask_to_publish();
    if (request.action == "limit") {
        if (!input_.opened.caps)
            return make_error(ErrorKind::bad_input, "the caps of this peer cannot be changed");
        return input_.opened.caps->set(request.up, request.down);  // poll() tells when it is so
    }
    const bool paused = request.action == "pause";
    if (paused == is_paused_) return {};
    is_paused_ = paused;
    service_.collaboration().set_paused(paused);
    if (paused)
        announce(events::Paused{},
                 "paused: this peer computes nothing, and keeps up with the run, until `dedloc "
                 "resume`");
    else
        announce(events::Resumed{}, "resumed: this peer computes again");
    return {};
}

void PeerRun::update_web(const monitor::RunView& view) {
    if (!web_) return;
    web::RunSnapshot snapshot;
    snapshot.view = view;
    snapshot.statuses = last_statuses_;
    snapshot.now = node_.clock().wall_now();
    snapshot.up_mbit = caps_told_.up * 8e-6;
    snapshot.down_mbit = caps_told_.down * 8e-6;
    snapshot.paused = is_paused_;
    snapshot.grid = grid_.seen();
    for (const auto& [peer, traffic] : carried_)
        snapshot.carried.push_back({peer, traffic.sent_bytes, traffic.received_bytes});
    web_->update(std::move(snapshot));
}

std::optional<Failure> PeerRun::begin() {
    auto log = monitor::EventLog::open(file(events_file));
    if (!log) return failure(ExitCode::disk, log.error());
    log_ = *std::move(log);
    if (auto failed = start_web()) return failed;
    if (auto failed = start_tensorboard()) return failed;
    if (auto failed = watch_notices()) return failed;
    std::vector<events::EventSink*> sinks{log_.get(), &mailbox_, &states_.sink()};
    if (web_) sinks.push_back(&web_->store());
    if (tensorboard_) sinks.push_back(tensorboard_.get());
    fan_ = std::make_unique<monitor::EventFan>(std::move(sinks));
    say_folder();
    if (!options_.watch_prompts.empty())
        if (const auto prompts = prompts_of_file(options_.watch_prompts); !prompts)
            return failure(prompts.error());
    if (!hosts())
        if (auto failed = prepare_newcomer()) return failed;
    if (auto failed = train::on_passing_thread([this] { return make_task(); })) return failed;
    if (const Ok given = data_.give(*task_, *fan_); !given) return failure(given.error());
    announce(events::TaskMade{}, task_->description());
    const run::Layout layout = learner_->layout();
    vector_bytes_ = static_cast<double>(layout.vector_count()) *
                    codec::element_bytes(run::vector_codecs(run_file().averaging, layout));
    if (web_) web_->store().set_vector_bytes(vector_bytes_);
    if (const Ok kept = keep_run_files(input_.opened.directory, *task_); !kept)
        return failure(ExitCode::disk, kept.error());
    const Ok copied = train::keep_run_copy(node_, run_file());
    if (!copied) return failure(ExitCode::disk, copied.error());
    const Ok secret_kept = train::keep_secret(node_, input_.invitation.secret);
    if (!secret_kept) return failure(ExitCode::disk, secret_kept.error());

    collab::CollaborationOptions options = collaboration_options();
    if (input_.resume) options.chain = input_.resume->extra;
    if (hosts()) {
        auto first = train::on_passing_thread([this] { return first_state(*learner_); });
        if (!first) return failure(first.error());
        if (!warm_start_told_.empty()) announce(events::StartedFrom{}, warm_start_told_);
        input_.from.reset();  // as large as the state
        resumed_at_ = (*first)->step();
        options.initial = *std::move(first);
    } else {
        screen_.say(fmt::format("joining {} …", run_file().name));
    }
    // Until it has joined there is nothing to hand in: a Ctrl-C ends it, and gives the cursor back.
    catch_interrupts();
    const auto begun =
        service_.begin(std::move(options), fan_.get(), [this] { return look_while_joining(); });
    if (!begun) return failure(begun.error());
    data_.serve(service_.collaboration());
    const std::uint64_t step = service_.collaboration().state()->step();
    if (hosts() && resumed_at_ != step)
        announce(
            events::Joined{},
            fmt::format("the run went on without this peer, which has come back at step {}", step));
    states_.begin_at(step);
    states_.begin();
    if (!options_.quiet || web_) grid_.start(node_, run_file());
    if (options_.listed) list_run(node_, service_, input_.invitation);
    return std::nullopt;
}

void PeerRun::tell_micro_batch() {
    std::string text = micro_batch_news_.take();
    if (!text.empty()) announce(events::MicroBatchFound{}, std::move(text));
}

void PeerRun::start_trainer() {
    const run::RunFile& run = run_file();
    if (!run.averaging.codec) screen_.say(run::describe_codecs(run.averaging, learner_->layout()));
    const bool on_cpu = task_->device() == "cpu";
    train::LoopOptions loop = train::loop_options(run);
    loop.begins_early = true;
    loop.make_evaluator = [task = task_, id = node_.id()] { return task->learner(id); };
    if (options_.flips_signs) flip_signs_in(loop, options_);
    train::TrainerOptions trainer{
        .loop = std::move(loop),
        .micro_batch = run.batch.micro,
        .micro_search = micro_batch_options(run),
        .computes_on_cpu = on_cpu,
        .memory = on_cpu ? memory_in_use : nullptr,  // of a GPU's nothing is known
        .on_micro_batch =
            [this](const train::MicroBatchSearch& search) { micro_batch_news_.found(search); },
        .on_end = [this](const Result<void>&) { trainer_ended_ = true; }};
    trainer_ = std::make_unique<train::Trainer>(node_.spawn(),
                                                node_.clock(),
                                                node_.disk(),
                                                service_.collaboration(),
                                                std::move(learner_),
                                                std::move(trainer));
    trainer_->start();
}

void PeerRun::tell(events::Any what, std::string text) {
    const events::Event event{.time = node_.clock().wall_now(),
                              .step = states_.step(),
                              .text = std::move(text),
                              .what = std::move(what)};
    fan_->record(event);
}

void PeerRun::announce(events::Any what, std::string text) {
    screen_.say(text);
    tell(std::move(what), std::move(text));
}

void PeerRun::tell_caps(const runtime::LineCaps& caps) {
    caps_told_ = caps;
    events::Event event = caps_event(caps, node_.clock().wall_now());
    if (std::string hint = cap_hint(run_file().averaging, vector_bytes_, caps); !hint.empty())
        event.text = std::move(hint);
    screen_.say(event.text);
    fan_->record(event);
}

// Peers take turns; the report of any folder has the whole curve.
void PeerRun::tell_evaluations() {
    const membership::Status* newest = nullptr;
    for (const membership::Status& status : last_statuses_)
        if (status.peer != node_.id() && std::isfinite(status.accuracy) &&
            status.accuracy_step > (newest ? newest->accuracy_step : evaluation_told_))
            newest = &status;
    if (!newest) return;
    evaluation_told_ = newest->accuracy_step;
    fan_->record({.time = node_.clock().wall_now(),
                  .peer = newest->peer,
                  .step = states_.step(),
                  .text = fmt::format("step {}: accuracy {:.2f} %, measured by {}",
                                      newest->accuracy_step,
                                      newest->accuracy * 100,
                                      base::printable(newest->name)),
                  .what = events::Evaluated{.step = newest->accuracy_step,
                                            .accuracy = newest->accuracy,
                                            .loss = std::numeric_limits<double>::quiet_NaN()}});
}

// Without votes. A host that hosts once more would begin a second run.
std::string PeerRun::how_to_come_back() const {
    if (!hosts())
        return ". This peer has ended, so that the others go on without it; join again in this "
               "folder when that is mended";
    return fmt::format(
        ". This peer has ended. When that is mended: `{0} join` with a string from a peer that "
        "still trains; where there is none, `{0} host --resume {1}`",
        called_as(),
        input_.opened.directory);
}

void PeerRun::look_at(const events::Event& event) {
    if (!model_.was_just_told(event) && event.is<events::VotesFailed,
                                                 events::VotesWritten,
                                                 events::AdmissionRefused,
                                                 events::RenewalFailed,
                                                 events::KeyUsedTwice,
                                                 events::DataGone,
                                                 events::DataFound,
                                                 events::DataLied,
                                                 events::Revoked>())
        screen_.say(event.text);
    if (const auto* revoked = event.as<events::Revoked>(); revoked && revoked->ours && !put_out_)
        put_out_ = Failure{code_for(Error(ErrorKind::denied, "")), event.text};
    if (options_.quiet)
        if (const auto line = quiet_failures_.observe(event, steady_seconds()))
            say(stderr, "dedloc: {}\n", *line);
    if (event.is<events::VotesFailing>() && !put_out_)
        put_out_ = Failure{ExitCode::disk, event.text + how_to_come_back()};
    model_.add(event);
}

void PeerRun::poll() {
    runtime::LineCaps caps;
    node_.run_on_network_thread([&] {
        last_statuses_ = service_.collaboration().peers();
        caps = node_.caps();
        if (web_) carried_ = collab::traffic_with(node_, last_statuses_);
    });
    if (caps != caps_told_) tell_caps(caps);
    for (const events::Event& event : mailbox_.take()) look_at(event);
    model_.update(last_statuses_, node_.clock().wall_now());
    tell_evaluations();
    monitor::RunView view = model_.view();
    if (const auto seen = grid_.seen()) {
        const double now = node_.clock().wall_now();
        grid_lines_.update(*seen, now);
        view.more = grid_lines_.lines(now, names_of(last_statuses_));
    }
    update_web(view);
    screen_.show(view);
    control_.poll();
}

void PeerRun::refresh_join_string() {
    if (const Ok written = join_string_.refresh(); !written)
        tell(events::JoinFileFailed{}, written.error().message());
}

void PeerRun::train() {
    while (!trainer_ended_) {
        poll();
        refresh_join_string();
        states_.save_if_due();
        states_.hook().poll();
        tell_micro_batch();
        if (put_out_) break;
        if (is_to_end()) {
            interrupted_ = true;
            break;
        }
        std::this_thread::sleep_for(monitor::frame_time);
    }
}

// The last state is the run's result: nobody but the user decides that it is not waited for.
// A peer that left, or failed, is not kept for long.
void PeerRun::finish_hook(const std::optional<Failure>& failed) {
    CheckpointHook& hook = states_.hook();
    if (!hook.busy()) return;
    if (failed) screen_.say(failed->message);  // which else is said when all is done
    if (failed || interrupts() > 0) {
        screen_.say(fmt::format("publishing the last state, for {:.0f} s at most …",
                                last_hook_seconds_max));
        return hook.finish(last_hook_seconds_max, [] { return false; });
    }
    screen_.say("publishing the last state … (Ctrl-C: do not wait)");
    hook.finish(2 * hook_seconds_max, [] { return interrupts() > 0; });  // one before it, and it
}

void PeerRun::wait_for_trainer() {
    const double until = steady_seconds() + gradient_timeout_s;
    while (!trainer_->has_ended() && (!interrupted_ || steady_seconds() < until))
        std::this_thread::sleep_for(monitor::frame_time);
}

std::optional<Failure> PeerRun::end() {
    if (interrupted_)
        screen_.say("leaving: handing in what was computed … (Ctrl-C again: end at once)");
    // The trainer ends by itself when the run is over; else it hands in what it has. Without a vote
    // there is no step to wait for.
    const bool votes = !put_out_;
    const Duration timeout = preempted_ ? notice_timeout : leave_grace_period;
    if (interrupted_ || !votes) trainer_->stop(votes ? timeout : Duration(0));
    service_.leave(!votes ? Duration(0) : interrupted_ ? timeout : end_timeout);
    poll();
    control_.close();
    if (web_)
        web_->end(interrupted_ ? "this peer has left"
                  : put_out_   ? put_out_->message
                               : "the run is over");
    // Nothing changes the state any more. What ends this process next (a service manager, a machine
    // that is switched off) may not wait for a gradient, and nor do we.
    const auto final_state = service_.collaboration().state();
    states_.save_last(final_state);
    ::unlink(file(join_file).c_str());
    data_.end();  // a gradient may wait for data that nobody sends
    wait_for_trainer();
    const Result<void> trained = trainer_->has_ended() ? trainer_->join() : Result<void>();
    std::optional<Failure> failed;
    if (put_out_) {
        failed = put_out_;  // whatever else a full disk did not take
    } else if (!trained && trained.error().kind() != ErrorKind::cancelled) {
        failed = failure(trained.error());
        tell(events::TrainingFailed{}, failed->message);
    } else if (!states_.problem().empty()) {
        failed = Failure{ExitCode::disk, states_.problem()};
    }
    screen_.release();  // a pipe that is not read stops us here, when the state is safe
    view_is_over_ = true;
    finish_hook(failed);
    if (failed) return failed;
    if (interrupted_)
        screen_.say(fmt::format(
            "left at step {}; the state is in {}", final_state->step(), states_.newest()));
    else
        screen_.say(fmt::format("the run is over at step {}; the state is in {}",
                                final_state->step(),
                                states_.newest()));
    return std::nullopt;
}

void PeerRun::print_json(const std::optional<Failure>& failed) {
    nlohmann::ordered_json json{{"ok", !failed}};
    if (failed) json["error"] = failed->message;
    if (trainer_) {
        const auto snapshot = service_.collaboration().state();
        const monitor::RunView view = model_.view();
        json["run"] = run_file().name;
        json["run_hash"] = run::run_hash(run_file()).hex();
        json["peer"] = node_.id().text();
        json["step"] = snapshot->step();
        json["samples"] = snapshot->info().samples;
        json["loss"] = view.loss;
        json["accuracy"] = view.accuracy;
        json["accuracy_step"] = view.accuracy_step;
        json["state_hash"] = state::make_manifest(*snapshot).root.hex();
        json["samples_computed"] = trainer_->samples_computed();
        const auto accounts =
            node_.run_on_network_thread([this] { return service_.collaboration().accounts(); });
        json["samples_expired"] = accounts.samples_expired;
        json["samples_dropped"] = accounts.samples_dropped;
        for (const tasks::Measure& count : task_->counts()) json[count.name] = count.value;
        if (const auto data = data_.stats()) {
            json["data_bytes_received"] = data->bytes_received;
            json["data_bytes_sent"] = data->bytes_sent;
        }
        json["left"] = interrupted_;
        json["preempted"] = preempted_;
        json["checkpoint"] = states_.newest();
        json["join_string"] = join_string_.text();
    }
    json["directory"] = input_.opened.directory;
    if (web_) json["web"] = web_->address();
    json["seconds"] = steady_seconds() - input_.started;
    screen_.print(monitor::json_line(json));
}

int PeerRun::run() {
    std::optional<Failure> failed = begin();
    if (failed) {
        screen_.release();
        data_.end();
        learner_.reset();  // it may call others through the node
        task_.reset();
        input_.opened.node.reset();  // it would tell `fan_` what happens until the very end
    } else {
        start_trainer();
        train();
        failed = end();
    }
    if (log_) log_->flush();
    if (tensorboard_) tensorboard_->flush();
    const int code = failed ? report(*failed) : 0;
    if (options_.json) print_json(failed);
    // All is written and said. The gradient that is still computed is nobody's, and what it uses
    // must not be destroyed under it.
    if (computes_in_vain()) {
        std::fflush(nullptr);
        ::_exit(code == 0 && output_error() != 0 ? static_cast<int>(ExitCode::disk) : code);
    }
    return code;
}

}  // namespace

int run_peer(PeerRunInput input, const PeerOptions& options) {
    PeerRun run(std::move(input), options);
    return run.run();
}

}  // namespace dedloc::peer
