#include "dedloc/train/session.h"

#include <fmt/format.h>
#include <mutex>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/codec/chooser.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/read_run_file.h"
#include "dedloc/run/vector_codecs.h"
#include "dedloc/runtime/future.h"
#include "dedloc/security/hash.h"
#include "dedloc/train/find_checkpoint.h"
#include "dedloc/train/host_access.h"
#include "dedloc/train/recomputable.h"
#include "dedloc/train/run_copy.h"
#include "dedloc/wire/written_addresses.h"

namespace dedloc::train {

// One thing has to be said even where nobody reads events: this peer cannot write its votes, so
// that no step is made where the others need them.
class VoteWatch final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        using namespace events;
        if (!event.is<VotesFailed, VotesFailing, VotesWritten>()) return;
        log(LogLevel::warning, "trainer", "{}", event.text);
        const std::lock_guard lock(mutex_);
        problem_ = event.is<VotesFailing>() ? event.text : std::string();
    }
    std::string problem() const {  // empty: none, or one of a moment
        const std::lock_guard lock(mutex_);
        return problem_;
    }

  private:
    mutable std::mutex mutex_;
    std::string problem_;
};

namespace {

constexpr Duration timeout_at_destruction = 2s;
constexpr auto leave_poll = std::chrono::milliseconds(20);

// Sample numbers are never given out twice, so that a peer that comes back has another one, too.
std::uint64_t seed_of(const PeerId& peer, std::uint64_t first_sample) {
    Bytes bytes = base::to_bytes(peer.bytes());
    base::put_u64_be(bytes, first_sample);
    const Digest hash = security::sha256(bytes);
    return *base::ByteReader(hash.view()).u64_be();
}

Result<collab::NodeOptions> node_options(const SessionOptions& given) {
    collab::NodeOptions node{.directory = given.directory, .relays = given.relays};
    DEDLOC_TRY(node.listen, wire::listen_addresses(given.listen));
    DEDLOC_TRY(node.announce, wire::announced_addresses(given.announce));
    for (const std::string& relay : given.relays) DEDLOC_TRY_VOID(run::split_peer_address(relay));
    return node;
}

// Refuses runs that would not come to anything with this loop as their host.
Ok check_host(const run::RunFile& run, const LoopCalls& calls) {
    const run::StopConfig& stop = run.stop;
    if (!calls.evaluate && stop.accuracy > 0 && stop.steps == 0 && stop.samples == 0) {
        return make_error(
            ErrorKind::unsupported,
            "this run would never end: its only stop condition is stop.accuracy, and this loop "
            "does not measure that; give it a function that evaluates, or say stop.steps or "
            "stop.samples too");
    }
    if (!calls.compute && run.is_checked()) {
        return make_error(
            ErrorKind::unsupported,
            "newcomers of this robust run would never weigh anything: their first contributions "
            "are checked by voters, and this loop cannot compute another peer's samples again. "
            "Give it a function that computes samples by their numbers, or write 'check = 0' into "
            "the run file's [robust]");
    }
    return {};
}

// The model as it is, and which one that is.
Result<std::shared_ptr<const state::Snapshot>> state_of(const run::RunFile& run,
                                                        const Model& model,
                                                        const Fingerprint& fingerprint) {
    std::vector<float> parameters(model.layout().parameters_count);
    std::vector<float> buffers(model.layout().buffers_count);
    model.store(parameters, buffers);
    return replica::initial_state(
        run, model.layout(), std::move(parameters), std::move(buffers), fingerprint.to_bytes());
}

// Decides who may join; the secret that lies in the folder of a resumed run is still good.
Ok give_access(collab::CollaborationOptions& run,
               const collab::Node& node,
               const SessionOptions& given,
               const std::optional<security::Identity>& authority) {
    HostAccessOptions access_options;
    access_options.resumes = !given.resume.empty();
    access_options.name = given.name.empty() ? "organiser" : given.name;
    DEDLOC_TRY(HostAccess access, host_access(node, run.run, authority, access_options));
    DEDLOC_TRY_VOID(keep_secret(node, access.secret));
    run.secret = std::move(access.secret);
    run.admitted = std::move(access.admitted);
    run.issuer = std::move(access.issuer);
    return {};
}

Result<collab::CollaborationOptions> hosting(const SessionOptions& given,
                                             const collab::Node& node,
                                             const Model& model,
                                             const Fingerprint& fingerprint) {
    collab::CollaborationOptions run;
    if (!given.run_file.empty()) {
        DEDLOC_TRY(run.run, run::read_run_file(given.run_file));
    } else if (!given.run_text.empty()) {
        DEDLOC_TRY(run.run, run::parse_run_file(given.run_text, "the run file"));
    }
    if (given.resume.empty()) {
        DEDLOC_TRY(const std::optional<security::Identity> authority,
                   give_authority(run.run, given.admit, given.directory));
        DEDLOC_TRY_VOID(check_folder_of(given.directory, run::run_hash(run.run)));
        DEDLOC_TRY_VOID(give_access(run, node, given, authority));
        DEDLOC_TRY(run.initial, state_of(run.run, model, fingerprint));
        return run;
    }
    DEDLOC_TRY(const FoundCheckpoint found, find_checkpoint(given.resume));
    for (const std::string& skipped : found.skipped)
        log(LogLevel::warning, "trainer", "{}", skipped);
    const std::string path = found.path + "/run.toml";
    DEDLOC_TRY(run::RunFile saved, run::parse_run_file(found.checkpoint.run_file, path));
    if (given.run_file.empty() && given.run_text.empty())
        run.run = std::move(saved);
    else if (!run.run.access)
        run.run.access = saved.access;  // which the host wrote
    DEDLOC_TRY_VOID(check_folder_of(given.directory, run::run_hash(run.run)));
    DEDLOC_TRY_VOID(give_access(run, node, given, std::nullopt));
    run.initial = found.checkpoint.state->snapshot;
    run.chain = found.checkpoint.extra;
    DEDLOC_TRY_VOID(replica::check_state(run.run, model.layout(), *run.initial));
    DEDLOC_TRY_VOID(check_same_model(fingerprint, run.initial->info().extra));
    return run;
}

Result<collab::CollaborationOptions> joining(const SessionOptions& given,
                                             const collab::Node& node) {
    DEDLOC_TRY(
        collab::Invitation invitation,
        collab::fetch_invitation(node, given.join, given.timeout, std::nullopt, given.goes_on));
    DEDLOC_TRY_VOID(check_folder_of(given.directory, run::run_hash(invitation.run)));
    collab::CollaborationOptions run;
    invitation.hand_over(run);
    run.run = std::move(invitation.run);
    return run;
}

Task<Result<void>> leave_there(collab::Collaboration& collaboration, Duration grace_period) {
    co_await collaboration.leave(grace_period);
    co_return Result<void>();
}

}  // namespace

Result<std::unique_ptr<LoopSession>> LoopSession::join(std::unique_ptr<Model> model,
                                                       const Fingerprint& fingerprint,
                                                       SessionOptions options) {
    const bool hosts = options.join.empty();
    const bool has_run = !options.run_file.empty() || !options.run_text.empty();
    if (hosts ? !has_run && options.resume.empty() : has_run || !options.resume.empty()) {
        return make_error(ErrorKind::bad_input,
                          "say either run_file or resume (to host) or join (to join)");
    }
    DEDLOC_TRY(collab::NodeOptions opening, node_options(options));
    DEDLOC_TRY(auto node, collab::Node::open(std::move(opening)));
    auto& service = node->add<collab::CollaborationService>(*node);
    DEDLOC_TRY(auto files, SessionFiles::open(*node, options.directory, options.events));
    DEDLOC_TRY(collab::CollaborationOptions run,
               hosts ? hosting(options, *node, *model, fingerprint) : joining(options, *node));
    if (hosts) DEDLOC_TRY_VOID(check_host(run.run, options.calls));
    // The hash of a large model's state takes a while, in which nobody was asked.
    if (options.goes_on && !options.goes_on())
        return make_error(ErrorKind::cancelled, "it was ended before it had the run's state");
    DEDLOC_TRY_VOID(keep_run_copy(*node, run.run));
    std::unique_ptr<LoopSession> session(
        new LoopSession(std::move(node), service, std::move(files), std::move(model), run.run));
    DEDLOC_TRY_VOID(session->offer(options));
    DEDLOC_TRY_VOID(session->begin_tensorboard(options.tensorboard));
    run.layout = session->model_->layout();
    run.name = options.name;
    run.checks_others = session->computes_samples_;
    run.join_timeout = options.timeout;
    DEDLOC_TRY_VOID(service.begin(std::move(run), session->fan_.get(), options.goes_on));
    session->begun_ = true;
    const std::shared_ptr<const state::Snapshot> begun = service.collaboration().state();
    DEDLOC_TRY_VOID(check_same_model(fingerprint, begun->info().extra));
    DEDLOC_TRY_VOID(session->begin_loop(std::move(options)));
    return session;
}

LoopSession::LoopSession(std::unique_ptr<collab::Node> node,
                         collab::CollaborationService& service,
                         std::unique_ptr<SessionFiles> files,
                         std::unique_ptr<Model> model,
                         run::RunFile run)
    : votes_(std::make_unique<VoteWatch>()),
      files_(std::move(files)),
      node_(std::move(node)),
      service_(service),
      run_(std::move(run)),
      model_(std::move(model)),
      saver_(service_, run_) {}

LoopSession::~LoopSession() {
    if (!begun_) return;
    wait_max_ = Duration(0);
    try {
        (void)leave(timeout_at_destruction);  // nobody is there to be told
    } catch (const std::exception& failure) {
        log(LogLevel::warning, "trainer", "leaving: {}", failure.what());
    }
}

Ok LoopSession::begin_tensorboard(const std::string& folder) {
    std::vector<events::EventSink*> sinks{files_.get(), votes_.get()};
    if (!folder.empty()) {
        DEDLOC_TRY(tensorboard_,
                   monitor::TensorboardWriter::open(folder, node_->clock().wall_now(), [this] {
                       return collab::traffic_now(*node_);
                   }));
        sinks.push_back(tensorboard_.get());
    }
    fan_ = std::make_unique<monitor::EventFan>(std::move(sinks));
    return {};
}

// Samples by the functions that the loop brought.
Ok LoopSession::offer(const SessionOptions& options) {
    if (!options.calls.compute && !options.calls.evaluate) return {};
    computes_samples_ = options.calls.compute != nullptr;
    samples_ = std::make_unique<CalledSamples>(*model_, options.calls, node_->id());
    return computes_samples_ ? check_recomputable(run_, *samples_, node_->id()) : Ok();
}

Result<void> LoopSession::begin_loop(SessionOptions options) {
    wait_max_ = options.wait_max;
    if (wait_max_ == Duration(0)) goes_on_ = std::move(options.goes_on);
    LoopOptions loop = loop_options(run_);
    loop.evaluates_between = options.calls.evaluate != nullptr;
    loop.evaluate_every = options.evaluate_every.value_or(run_.evaluate_every);
    loop.goes_on = [this] { return may_wait(); };
    loop.on_state = [this](const std::shared_ptr<const state::Snapshot>& state) {
        loaded_ = state;
        has_new_state_ = true;
        save_if_due();
    };
    loop_ = std::make_unique<Loop>(node_->spawn(),
                                   node_->clock(),
                                   node_->disk(),
                                   collaboration(),
                                   *model_,
                                   samples_.get(),
                                   std::move(loop));
    if (run_.batch.micro != run::micro_auto) loop_->check_in(run_.batch.micro);
    const std::shared_ptr<const state::Snapshot> begun = collaboration().state();
    saver_.begin_at(begun->step());
    DEDLOC_TRY_VOID(loop_->begin());
    loaded_ = begun;
    seed_ = seed_of(node_->id(), loop_->next_number());
    files_->refresh_join_string(collaboration());
    computing_since_ = node_->clock().now();
    return {};
}

bool LoopSession::load_newest() {
    const std::shared_ptr<const state::Snapshot> newest = collaboration().state();
    const bool is_another = loaded_.lock() != newest;
    loop_->begin_at(*newest);
    loaded_ = newest;
    return is_another;
}

void LoopSession::load_last() {
    if (has_last_ || !loop_) return;
    (void)load_newest();
    has_last_ = true;
}

void LoopSession::drop() {
    model_->leave_out();
    loop_->forget();
}

Result<void> LoopSession::check_step(std::int64_t samples) const {
    if (samples <= 0) return make_error(ErrorKind::bad_input, "step() needs the number of samples");
    const auto count = static_cast<std::uint64_t>(samples);
    // Nobody computes on when the batch is full, so that a contribution is less than two batches,
    // which rounds take; of more they would take no part, for ever.
    if (count > run_.batch.target) {
        return make_error(ErrorKind::bad_input,
                          "this run takes at most {} samples a step(); the run file's batch.target "
                          "says so",
                          run_.batch.target);
    }
    const bool has_buffers = model_->layout().buffers_count > 0;
    if (run_.is_checked() && run_.batch.micro != run::micro_auto && count != run_.batch.micro &&
        (has_buffers || run_.local)) {
        return make_error(ErrorKind::bad_input,
                          "this run is checked, and {}: step() takes {} samples, as the run file's "
                          "batch.micro says, not {}",
                          run_.local ? "inner steps end where micro-batches do ([local])"
                                     : "gradients of this model depend on how samples are cut into "
                                       "micro-batches (it has BatchNorm)",
                          run_.batch.micro,
                          count);
    }
    return {};
}

Result<GradientReport> LoopSession::sum_up(collab::CounterRange range, bool has, double mean_loss) {
    try {
        if (!has) return samples_->accumulate(range);
        model_->add(static_cast<double>(range.size()));
        return GradientReport{.loss_sum = mean_loss * static_cast<double>(range.size())};
    } catch (...) {
        loop_->forget();
        throw;
    }
}

// The present gradient to the sum, or one that is made now.
Result<void> LoopSession::add(std::uint64_t samples, double mean_loss) {
    DEDLOC_TRY_VOID(model_->check());
    const bool has = model_->has_gradient();
    if (!has && !computes_samples_) {
        return make_error(ErrorKind::bad_input,
                          "no gradient: call backward() on a loss of the model that joined, before "
                          "step()");
    }
    const double norm_max = norm_max_of_one(run_.averaging.norm_max, run_.batch.target);
    const bool sound = !has || model_->is_sound(norm_max_of_mean(norm_max, samples));
    DEDLOC_TRY(const collab::CounterRange range, loop_->take_numbers(samples));
    Result<GradientReport> report = GradientReport{.finite = false};
    if (sound)
        report = sum_up(range, has, mean_loss);
    else
        model_->leave_out();
    if (!report) {
        loop_->forget();
        return report.error();
    }
    loop_->check_in(samples);
    const double seconds = to_seconds(node_->clock().now() - computing_since_);
    DEDLOC_TRY_VOID(loop_->computed(range, *report, seconds));
    return {};
}

Result<bool> LoopSession::step(std::int64_t samples, double mean_loss) {
    Result<bool> stepped = try_step(samples, mean_loss);
    const bool has_failed = !stepped && stepped.error().kind() != ErrorKind::cancelled &&
                            stepped.error().kind() != ErrorKind::bad_input;  // the caller's slip
    if (has_failed && !left_)
        files_->tell(events::TrainingFailed{}, global_step(), stepped.error().message());
    return stepped;
}

Result<bool> LoopSession::try_step(std::int64_t samples, double mean_loss) {
    has_new_state_ = false;
    called_at_ = node_->clock().now();
    if (!waits_) {  // else an earlier one was cancelled
        if (finished()) return !left_ && step_over();
        DEDLOC_TRY_VOID(end_without_votes());
        DEDLOC_TRY_VOID(check_step(samples));
        DEDLOC_TRY_VOID(add(static_cast<std::uint64_t>(samples), mean_loss));
    }
    files_->refresh_join_string(collaboration());
    const Result<bool> more = loop_->until_compute();
    computing_since_ = node_->clock().now();
    waits_ = !more && more.error().kind() == ErrorKind::cancelled && loop_->has_handed_in();
    if (!more) return more.error();
    if (!*more && !left_) (void)step_over();
    return has_new_state_;
}

// Nothing more is computed.
bool LoopSession::step_over() {
    loop_->evaluate_the_end();
    has_new_state_ = load_newest() || has_new_state_;
    return has_new_state_;
}

Result<void> LoopSession::may_wait() {
    DEDLOC_TRY_VOID(end_without_votes());
    if (goes_on_ && !goes_on_())
        return make_error(ErrorKind::cancelled, "step() was told not to wait any more");
    return is_in_time();
}

Result<void> LoopSession::is_in_time() const {
    if (wait_max_ > Duration(0) && node_->clock().now() - called_at_ >= wait_max_)
        return make_error(ErrorKind::cancelled, "it waits on: call again");
    return {};
}

void LoopSession::set_paused(bool paused) {
    if (paused == this->paused()) return;
    collaboration().set_paused(paused);
    if (paused)
        files_->tell(events::Paused{},
                     global_step(),
                     "paused: this loop waits in step(), and keeps up with the run, until it is "
                     "resumed");
    else
        files_->tell(events::Resumed{}, global_step(), "resumed: this loop computes again");
}

double LoopSession::vector_bytes() const {
    const run::Layout layout = model_->layout();
    return static_cast<double>(layout.vector_count()) *
           codec::element_bytes(run::vector_codecs(run_.averaging, layout));
}

double LoopSession::learning_rate() const {
    return optim::learning_rate((run_.local ? run_.local->optimizer : run_.optimizer).schedule,
                                global_step());
}

// Training goes on where there is no room for a checkpoint; leave() tries again.
void LoopSession::save_if_due() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (!saver_.is_due(*state)) return;
    const auto saved = saver_.save(std::move(state));
    if (!saved) log(LogLevel::warning, "trainer", "no checkpoint: {}", saved.error().message());
}

Result<void> LoopSession::save_last() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (saver_.saves() && !saver_.has_saved(state)) DEDLOC_TRY_VOID(saver_.save(std::move(state)));
    return {};
}

Result<void> LoopSession::leave(Duration grace_period) {
    called_at_ = node_->clock().now();
    if (!left_) {
        if (loop_ && finished()) loop_->evaluate_the_end();
        collaboration().trainer_runs(loop_ && loop_->has_something());
        parting_ = runtime::spawn_future(
            node_->spawn(), "leave", leave_there(collaboration(), grace_period));
        left_ = true;
    } else if (parting_.valid()) {  // an earlier call was cancelled: this one may have less time
        node_->run_on_network_thread([&] { collaboration().leave_within(grace_period); });
    }
    if (parting_.valid()) {
        if (loop_) DEDLOC_TRY_VOID(hand_in_last());
        collaboration().trainer_runs(false);
        while (parting_.wait_for(leave_poll) != std::future_status::ready)
            DEDLOC_TRY_VOID(is_in_time());
        (void)runtime::wait_for_result(parting_);  // cancelled: the session was stopped: left, too
    }
    if (!loop_) return {};  // it never was one of them
    files_->remove_join_string();
    // Others may have made steps since the last one here.
    load_last();
    DEDLOC_TRY_VOID(loop_->end());
    return save_last();
}

// The collaboration waits for our last samples. Once we are gone no round ends here any more:
// whoever waits there waits for ever, until the session ends.
Result<void> LoopSession::hand_in_last() {
    loop_->wait_only_while([this]() -> Result<void> {
        if (parting_.wait_for(0s) != std::future_status::ready) return is_in_time();
        return make_error(ErrorKind::cancelled, "the run was left");
    });
    if (const Result<void> handed_in = loop_->finish(); !handed_in) {
        const bool is_left = parting_.wait_for(0s) == std::future_status::ready;
        if (handed_in.error().kind() == ErrorKind::cancelled && !is_left) return handed_in;
        log(LogLevel::debug, "trainer", "the last samples: {}", handed_in.error().message());
    }
    return {};
}

Result<void> LoopSession::end_without_votes() {
    const std::string problem = votes_->problem();
    if (problem.empty()) return {};
    left_ = true;
    service_.leave(Duration(0));
    (void)save_last();  // that disk may take nothing
    load_last();
    return make_error(
        ErrorKind::local_fault,
        "{}. This session has ended, so that the others go on without it; when that is mended, "
        "join again with this directory (where nobody trains any more: resume from it)",
        problem);
}

std::string LoopSession::join_string() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.join_string(); });
}

membership::Status LoopSession::status() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.status(); });
}

std::string LoopSession::state_hash() const { return status().state_hash.hex(); }

std::vector<membership::Status> LoopSession::peers() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.peers(); });
}

std::vector<collab::TrafficWith> LoopSession::traffic_with(
    const std::vector<membership::Status>& peers) const {
    return node_->run_on_network_thread([&] { return collab::traffic_with(*node_, peers); });
}

}  // namespace dedloc::train
