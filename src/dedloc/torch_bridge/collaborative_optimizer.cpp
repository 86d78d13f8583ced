#include "dedloc/torch_bridge/collaborative_optimizer.h"

#include <cmath>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "dedloc/base/log.h"
#include "dedloc/collab/model_state.h"
#include "dedloc/collab/session.h"
#include "dedloc/security/hash.h"
#include "dedloc/torch_bridge/fingerprint.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/trainer/checkpoint_saver.h"
#include "dedloc/trainer/find_checkpoint.h"
#include "dedloc/trainer/not_finite.h"
#include "dedloc/trainer/sample_counter.h"

namespace dedloc::torch_bridge {

using trainer::CheckpointSaver;
using trainer::NotFiniteInARow;
using trainer::SampleCounter;

namespace {

constexpr Duration patience_at_destruction = 2s;
// How often one that leaves looks whether it still waits for its last step.
constexpr auto leave_poll = std::chrono::milliseconds(20);

// Errors leave this room as exceptions, as libtorch's own do.
template <typename T>
T or_throw(Result<T> result) {
    if (!result) throw std::runtime_error("dedloc: " + result.error().message());
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

Result<collab::RunFile> read_run_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file || text.str().size() > collab::run_file_bytes_max) {
        return make_error(ErrorKind::not_found, "the run file {} cannot be read", path);
    }
    return collab::parse_run_file(text.str(), path);
}

// Hands events on to whoever wants them. One thing has to be said even where nobody does: this peer
// cannot write its votes, so that no step is made where the others need them.
class VoteWatch final : public collab::EventSink {
  public:
    explicit VoteWatch(collab::EventSink* next) : next_(next) {}
    void record(const collab::Event& event) override {
        if (next_ != nullptr) next_->record(event);
        using namespace collab::events;
        if (!event.is<VotesFailed, VotesFailing, VotesWritten>()) return;
        log(LogLevel::warning, "torch_bridge", "{}", event.text);
        const std::lock_guard lock(mutex_);
        problem_ = event.is<VotesFailing>() ? event.text : std::string();
    }
    std::string problem() const {  // empty: none, or one of a moment
        const std::lock_guard lock(mutex_);
        return problem_;
    }

  private:
    collab::EventSink* next_;  // may be null
    mutable std::mutex mutex_;
    std::string problem_;
};

// Sample numbers are never given out twice, so that a peer that comes back has another one, too.
std::uint64_t seed_of(const PeerId& peer, std::uint64_t first_sample) {
    Bytes bytes = base::to_bytes(peer.bytes());
    base::put_u64_be(bytes, first_sample);
    const Digest hash = security::sha256(bytes);
    return *base::ByteReader(hash.view()).u64_be();
}

}  // namespace

struct Session::State {
    State(std::unique_ptr<VoteWatch> watch,
          std::unique_ptr<collab::Session> peer,
          const collab::RunFile& run,
          FlatModule model,
          SampleCounter samples_counter)
        : votes(std::move(watch)),
          session(std::move(peer)),
          samples_max(run.batch.target),
          norm_max(collab::Learner::norm_max_of_one(run.averaging.norm_max, run.batch.target)),
          flat(std::move(model)),
          counter(std::move(samples_counter)),
          seed(seed_of(session->id(), counter.next())),
          saver(*session, run) {
        flat.remember_buffers();
        samples = {counter.next(), counter.next()};
    }

    collab::Collaboration& collaboration() const { return session->collaboration(); }
    void load(const std::shared_ptr<const state::Snapshot>& snapshot);
    // The state as it is now. Buffers, too, where it is the loaded one: own forward passes have
    // moved them. Was it another one?
    bool load_newest();
    void load_last();  // once: afterwards the model is its owner's
    void add(std::uint64_t samples_count);
    void leave_out(std::uint64_t samples_count);
    // One batch at most of a step in which this line rests: more would only count twice, there and
    // in what the others compute instead.
    bool hand_in_if_due() { return !collaboration().is_to_compute() && hand_in(); }
    // What there is; `gone`: only until then.
    bool hand_in(std::future<Result<void>>* gone = nullptr);
    void save_if_due();
    Result<void> save_last();
    // Again: only what failed.
    void leave(Duration patience);
    // Leaves at once and throws, where our votes cannot be written.
    void end_without_votes();

    std::unique_ptr<VoteWatch> votes;  // outlives the session, which tells it
    std::unique_ptr<collab::Session> session;
    // Of one step(). Nobody computes on when the batch is full, so that a contribution is less than
    // two batches, which rounds take; of more they would take no part, for ever.
    std::uint64_t samples_max;
    double norm_max;  // of one sample's gradient
    FlatModule flat;
    SampleCounter counter;
    std::uint64_t seed;
    CheckpointSaver saver;
    collab::CounterRange samples;
    double loss_sum = 0;
    NotFiniteInARow not_finite;
    NotFiniteInARow refused{trainer::refused_in_a_row_max};
    TimePoint computing_since;
    std::weak_ptr<const state::Snapshot> loaded;  // what the model holds
    bool left = false;
    std::future<Result<void>> parting;  // valid: the collaboration is being left
    bool has_last = false;              // the model has what it shall have in the end
};

void Session::State::load(const std::shared_ptr<const state::Snapshot>& snapshot) {
    if (!snapshot) return;
    flat.load(collab::parameters_of(*snapshot), collab::buffers_of(*snapshot));
    flat.forget_gradients();
    flat.remember_buffers();
    loaded = snapshot;
}

bool Session::State::load_newest() {
    const std::shared_ptr<const state::Snapshot> newest = collaboration().state();
    const bool is_another = loaded.lock() != newest;
    load(newest);
    return is_another;
}

void Session::State::load_last() {
    if (has_last) return;
    (void)load_newest();
    has_last = true;
}

// The gradients to the sums, and their numbers. Without both there are no samples to hand in.
void Session::State::add(std::uint64_t samples_count) {
    try {
        flat.add_gradients(static_cast<double>(samples_count));
        samples.end = or_throw(counter.take(samples_count)).end;
    } catch (...) {
        flat.forget_sums();
        samples = {counter.next(), counter.next()};
        loss_sum = 0;
        throw;
    }
    flat.remember_buffers();
    not_finite.end_row();
}

void Session::State::leave_out(std::uint64_t samples_count) {
    flat.forget_gradients();
    flat.restore_buffers();
    samples.end = or_throw(counter.take(samples_count)).end;
    samples.leave_out(samples_count);
    collaboration().report_not_finite(samples_count);
    computing_since = session->clock().now();
    or_throw(not_finite.one_more());
}

namespace {

Task<Result<collab::StepOutcome>> step_there(collab::Collaboration& collaboration,
                                             collab::Contribution contribution) {
    co_return co_await collaboration.step(std::move(contribution));
}

Task<Result<void>> leave_there(collab::Collaboration& collaboration, Duration patience) {
    co_await collaboration.leave(patience);
    co_return Result<void>();
}

}  // namespace

bool Session::State::hand_in(std::future<Result<void>>* gone) {
    collab::Contribution contribution;
    contribution.samples = samples;
    contribution.loss_sum = loss_sum;
    if (samples.size() > 0) {
        const collab::Layout& layout = flat.layout();
        contribution.sum.resize(layout.vector_count());
        const std::span<float> all(contribution.sum);
        flat.take_sums(all.first(layout.parameters_count));
        flat.take_buffer_changes(all.subspan(layout.parameters_count),
                                 static_cast<double>(samples.size()));
    }
    samples = {samples.end, samples.end};
    loss_sum = 0;
    std::future<Result<collab::StepOutcome>> step = runtime::spawn_future(
        session->spawn(), "step", step_there(collaboration(), std::move(contribution)));
    // Once we are gone no round ends here any more: whoever waits there waits for ever, until the
    // session ends.
    while (step.wait_for(leave_poll) != std::future_status::ready) {
        if (gone == nullptr)
            end_without_votes();
        else if (gone->wait_for(0s) == std::future_status::ready)
            return false;
    }
    Result<collab::StepOutcome> outcome = runtime::wait_for_result(step);
    if (!outcome && outcome.error().kind() == ErrorKind::cancelled) return false;
    const collab::StepOutcome decided = or_throw(std::move(outcome));
    load(decided.state);
    or_throw(refused.next(/*sound=*/!decided.refused));
    save_if_due();
    computing_since = session->clock().now();
    return true;
}

// Training goes on where there is no room for a checkpoint; leave() tries again.
void Session::State::save_if_due() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (!saver.is_due(*state)) return;
    const auto saved = saver.save(std::move(state));
    if (!saved)
        log(LogLevel::warning, "torch_bridge", "no checkpoint: {}", saved.error().message());
}

void Session::State::leave(Duration patience) {
    if (!left) {
        parting = runtime::spawn_future(
            session->spawn(), "leave", leave_there(collaboration(), patience));
        left = true;
    }
    if (parting.valid()) {
        // The collaboration waits for our last samples, so they are handed in meanwhile.
        if (samples.size() > 0) hand_in(&parting);
        (void)runtime::wait_for_result(parting);  // cancelled: the session was stopped: left, too
    }
    // Others may have made steps since the last one here.
    load_last();
    or_throw(counter.close());
    or_throw(save_last());
}

Result<void> Session::State::save_last() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (saver.saves() && !saver.has_saved(state)) DEDLOC_TRY_VOID(saver.save(std::move(state)));
    return {};
}

void Session::State::end_without_votes() {
    const std::string problem = votes->problem();
    if (problem.empty()) return;
    left = true;
    session->leave(Duration(0));
    (void)save_last();  // that disk may take nothing
    load_last();
    throw std::runtime_error(fmt::format(
        "dedloc: {}. This session has ended, so that the others go on without it; when that is "
        "mended, join again with this directory (where nobody trains any more: resume from it)",
        problem));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;

Session::~Session() {
    if (!state_) return;
    try {
        state_->leave(patience_at_destruction);
    } catch (const std::exception&) {
        // A destructor has nobody to tell; leave() tells.
    }
}

std::string Session::join_string() const {
    collab::Collaboration& collaboration = state_->collaboration();
    return state_->session->there([&collaboration] { return collaboration.join_string(); });
}

std::string Session::peer_id() const { return state_->session->id().text(); }
std::uint64_t Session::seed() const { return state_->seed; }
std::uint64_t Session::global_step() const { return state_->collaboration().state()->step(); }

std::string Session::state_hash() const {
    collab::Collaboration& collaboration = state_->collaboration();
    return state_->session->there(
        [&collaboration] { return collaboration.status().state_hash.hex(); });
}

bool Session::finished() const { return state_->collaboration().stopped(); }
void Session::leave(Duration patience) { state_->leave(patience); }

namespace {

// What no session can do.
Ok check_run(const collab::RunFile& run, bool hosts) {
    if (run.local) {
        return make_error(
            ErrorKind::unsupported,
            "this run makes local updates ([local] in its run file); only `dedloc host` and "
            "`dedloc join` can, a training loop of your own cannot take part");
    }
    const collab::StopConfig& stop = run.stop;
    if (hosts && stop.accuracy > 0 && stop.steps == 0 && stop.samples == 0) {
        return make_error(
            ErrorKind::unsupported,
            "this run would never end: its only stop condition is stop.accuracy, and nobody "
            "measures that in a training loop of your own; say stop.steps or stop.samples too");
    }
    return {};
}

// The model as it is, and which one that is.
Result<std::shared_ptr<const state::Snapshot>> first_state(const collab::RunFile& run,
                                                           const FlatModule& flat,
                                                           const Fingerprint& fingerprint) {
    std::vector<float> parameters(flat.layout().parameters_count);
    std::vector<float> buffers(flat.layout().buffers_count);
    flat.store(parameters, buffers);
    DEDLOC_TRY(
        const std::shared_ptr<const state::Snapshot> plain,
        collab::initial_state(run, flat.layout(), std::move(parameters), std::move(buffers)));
    state::SnapshotInfo info = plain->info();
    info.extra = fingerprint.to_bytes();
    return state::Snapshot::make(std::move(info), plain->sections());
}

Result<collab::Options> hosting(const JoinOptions& given,
                                const FlatModule& flat,
                                const Fingerprint& fingerprint) {
    collab::Options run;
    run.secret = security::secure_random(collab::run_secret_bytes);
    if (!given.run_file.empty()) {
        DEDLOC_TRY(run.run, read_run_file(given.run_file));
    }
    if (given.resume.empty()) {
        DEDLOC_TRY(run.initial, first_state(run.run, flat, fingerprint));
        return run;
    }
    DEDLOC_TRY(const trainer::FoundCheckpoint found, trainer::find_checkpoint(given.resume));
    for (const std::string& skipped : found.skipped)
        log(LogLevel::warning, "torch_bridge", "{}", skipped);
    if (given.run_file.empty()) {
        const std::string path = found.path + "/run.toml";
        DEDLOC_TRY(run.run, collab::parse_run_file(found.checkpoint.run_file, path));
    }
    run.initial = found.checkpoint.state->snapshot;
    DEDLOC_TRY_VOID(collab::check_state(run.run, flat.layout(), *run.initial));
    DEDLOC_TRY_VOID(check_same_model(fingerprint, run.initial->info().extra));
    return run;
}

Result<collab::Options> joining(const JoinOptions& given, collab::Session& session) {
    DEDLOC_TRY(collab::Invitation invitation, session.invitation(given.join, given.patience));
    collab::Options run;
    run.run = std::move(invitation.run);
    run.secret = std::move(invitation.secret);
    run.bootstrap = std::move(invitation.bootstrap);
    return run;
}

}  // namespace

Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options) {
    const bool hosts = options.join.empty();
    if (hosts ? options.run_file.empty() && options.resume.empty()
              : !options.run_file.empty() || !options.resume.empty()) {
        throw std::runtime_error(
            "dedloc: say either run_file or resume (to host) or join (to join)");
    }
    const Fingerprint fingerprint = Fingerprint::of(*model, options.private_buffers);
    FlatModule flat = or_throw(FlatModule::make(
        std::move(model), {.private_buffers = options.private_buffers, .unread_counters = true}));
    auto votes = std::make_unique<VoteWatch>(options.events);
    auto session = or_throw(collab::Session::open({.directory = options.directory,
                                                   .listen = options.listen,
                                                   .announce = options.announce,
                                                   .relays = options.relays}));
    collab::Options run =
        or_throw(hosts ? hosting(options, flat, fingerprint) : joining(options, *session));
    or_throw(check_run(run.run, hosts));
    if (run.run.averaging.delayed) {
        log(LogLevel::warning,
            "torch_bridge",
            "the run file says averaging.delayed, which a training loop of your own cannot do: "
            "step() waits for each average");
    }
    run.layout = flat.layout();
    run.name = options.name;
    run.join_patience = options.patience;
    const collab::RunFile run_file = run.run;
    or_throw(session->begin(std::move(run), votes.get()));
    const std::shared_ptr<const state::Snapshot> begun = session->collaboration().state();
    if (Ok same = check_same_model(fingerprint, begun->info().extra); !same) {
        session->leave(patience_at_destruction);  // or others would wait for us
        or_throw(std::move(same));
    }

    SampleCounter counter = or_throw(SampleCounter::open(session->disk(), "samples"));
    auto state = std::make_unique<Session::State>(
        std::move(votes), std::move(session), run_file, std::move(flat), std::move(counter));
    state->saver.begin_at(begun->step());
    state->load(begun);
    state->computing_since = state->session->clock().now();
    return Session(std::move(state));
}

void CollaborativeOptimizer::zero_grad() { state_.flat.forget_gradients(); }

bool CollaborativeOptimizer::step(std::int64_t samples, double mean_loss) {
    if (finished()) return !state_.left && state_.load_newest();
    state_.end_without_votes();
    if (samples <= 0) throw std::runtime_error("dedloc: step() needs the number of samples");
    const auto count = static_cast<std::uint64_t>(samples);
    if (count > state_.samples_max) {
        throw std::runtime_error(fmt::format(
            "dedloc: this run takes at most {} samples a step(); the run file's batch.target says "
            "so",
            state_.samples_max));
    }
    if (!state_.flat.has_gradients()) {
        throw std::runtime_error(
            "dedloc: no gradient: call backward() on a loss of the model that joined, before "
            "step()");
    }
    const double mean_norm_max = state_.norm_max / std::sqrt(static_cast<double>(count));
    if (!state_.flat.gradients_are_sound(mean_norm_max)) {
        state_.leave_out(count);
        return state_.hand_in_if_due();
    }
    state_.add(count);
    const double loss = mean_loss * static_cast<double>(samples);  // no number where there is none
    state_.loss_sum += loss;
    const TimePoint now = state_.session->clock().now();
    state_.collaboration().report(count, loss, to_seconds(now - state_.computing_since));
    state_.computing_since = now;
    return state_.hand_in_if_due();
}

bool CollaborativeOptimizer::finished() const { return state_.collaboration().stopped(); }

}  // namespace dedloc::torch_bridge
