#include "dedloc/train/collaborative_optimizer.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "dedloc/collab/model_state.h"
#include "dedloc/collab/session.h"
#include "dedloc/security/hash.h"
#include "dedloc/train/flat_module.h"
#include "dedloc/train/not_finite.h"
#include "dedloc/train/sample_counter.h"

namespace dedloc::train {

namespace {

constexpr Duration patience_at_destruction = 2s;

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

}  // namespace

struct Session::State {
    State(std::unique_ptr<collab::Session> peer, FlatModule model, SampleCounter samples_counter)
        : session(std::move(peer)), flat(std::move(model)), counter(std::move(samples_counter)) {
        flat.remember_buffers();
    }

    collab::Collaboration& collaboration() const { return session->collaboration(); }
    void load(const std::shared_ptr<const state::Snapshot>& snapshot);
    void add(std::uint64_t samples_count);
    void leave_out(std::uint64_t samples_count);
    bool hand_in_if_due() { return collaboration().step_due() && hand_in(); }
    bool hand_in();
    void leave(Duration patience);

    std::unique_ptr<collab::Session> session;
    FlatModule flat;
    SampleCounter counter;
    collab::CounterRange samples;
    double loss_sum = 0;
    NotFiniteInARow not_finite;
    TimePoint computing_since;
    bool left = false;
};

void Session::State::load(const std::shared_ptr<const state::Snapshot>& snapshot) {
    if (!snapshot) return;
    flat.load(collab::parameters_of(*snapshot), collab::buffers_of(*snapshot));
    flat.forget_gradients();
    flat.remember_buffers();
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

bool Session::State::hand_in() {
    collab::Contribution contribution;
    contribution.samples = samples;
    contribution.loss_sum = loss_sum;
    if (samples.size() > 0) {
        const collab::Layout& layout = flat.layout();
        contribution.sum.resize(layout.vector_count());
        const std::span<float> all(contribution.sum);
        flat.take_sums(all.first(layout.parameters_count));
        flat.store_buffers(all.subspan(layout.parameters_count),
                           static_cast<double>(samples.size()));
    }
    samples = {samples.end, samples.end};
    loss_sum = 0;
    Result<collab::StepOutcome> outcome = session->call<collab::StepOutcome>(
        "step", step_there(collaboration(), std::move(contribution)));
    if (!outcome && outcome.error().kind() == ErrorKind::cancelled) return false;
    const collab::StepOutcome decided = or_throw(std::move(outcome));
    load(decided.state);
    computing_since = session->clock().now();
    return true;
}

void Session::State::leave(Duration patience) {
    if (left) return;
    left = true;
    // The collaboration waits for our last samples, so they are handed in meanwhile.
    std::future<Result<void>> gone =
        runtime::spawn_future(session->spawn(), "leave", leave_there(collaboration(), patience));
    if (samples.size() > 0) hand_in();
    (void)runtime::wait_for_result(gone);  // cancelled: the session was stopped, which is leaving
    or_throw(counter.close());
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
std::uint64_t Session::global_step() const { return state_->collaboration().state()->step(); }

std::string Session::state_hash() const {
    collab::Collaboration& collaboration = state_->collaboration();
    return state_->session->there(
        [&collaboration] { return collaboration.status().state_hash.hex(); });
}

bool Session::finished() const { return state_->collaboration().stopped(); }
void Session::leave(Duration patience) { state_->leave(patience); }

Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options) {
    if (options.run_file.empty() == options.join.empty()) {
        throw std::runtime_error("dedloc: say either run_file (to host) or join (to join)");
    }
    FlatModule flat = or_throw(FlatModule::make(std::move(model)));
    auto session =
        or_throw(collab::Session::open({.directory = options.directory, .listen = options.listen}));
    collab::Options run;
    if (!options.run_file.empty()) {
        run.run = or_throw(read_run_file(options.run_file));
        run.secret = security::secure_random(collab::run_secret_bytes);
        std::vector<float> parameters(flat.layout().parameters_count);
        std::vector<float> buffers(flat.layout().buffers_count);
        flat.store(parameters, buffers);
        run.initial = or_throw(collab::initial_state(
            run.run, flat.layout(), std::move(parameters), std::move(buffers)));
    } else {
        collab::Invitation invitation =
            or_throw(session->invitation(options.join, options.patience));
        run.run = std::move(invitation.run);
        run.secret = std::move(invitation.secret);
        run.bootstrap = std::move(invitation.bootstrap);
    }
    if (run.run.local) {
        throw std::runtime_error(
            "dedloc: this run makes local updates ([local] in its run file); only `dedloc host` "
            "and `dedloc join` can, a training loop of your own cannot take part");
    }
    run.layout = flat.layout();
    run.name = options.name;
    run.join_patience = options.patience;
    or_throw(session->begin(std::move(run), nullptr));

    SampleCounter counter = or_throw(SampleCounter::open(session->disk(), "samples"));
    auto state =
        std::make_unique<Session::State>(std::move(session), std::move(flat), std::move(counter));
    state->samples = {state->counter.next(), state->counter.next()};
    state->load(state->collaboration().state());
    state->computing_since = state->session->clock().now();
    return Session(std::move(state));
}

void CollaborativeOptimizer::zero_grad() { state_.flat.forget_gradients(); }

bool CollaborativeOptimizer::step(std::int64_t samples, double mean_loss) {
    if (finished()) return false;
    if (samples <= 0) throw std::runtime_error("dedloc: step() needs the number of samples");
    const auto count = static_cast<std::uint64_t>(samples);
    if (!state_.flat.gradients_are_finite()) {
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

}  // namespace dedloc::train
