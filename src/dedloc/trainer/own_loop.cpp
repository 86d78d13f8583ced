#include "dedloc/trainer/own_loop.h"

#include <cmath>
#include <fmt/format.h>
#include <mutex>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/read_run_file.h"
#include "dedloc/runtime/future.h"
#include "dedloc/security/hash.h"
#include "dedloc/trainer/find_checkpoint.h"

namespace dedloc::trainer {

// Hands events on to whoever wants them. One thing has to be said even where nobody does: this peer
// cannot write its votes, so that no step is made where the others need them.
class VoteWatch final : public events::EventSink {
  public:
    explicit VoteWatch(events::EventSink* next) : next_(next) {}
    void record(const events::Event& event) override {
        if (next_ != nullptr) next_->record(event);
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
    events::EventSink* next_;  // may be null
    mutable std::mutex mutex_;
    std::string problem_;
};

namespace {

constexpr Duration patience_at_destruction = 2s;
// How often one that leaves looks whether it still waits for its last step.
constexpr auto leave_poll = std::chrono::milliseconds(20);

// Sample numbers are never given out twice, so that a peer that comes back has another one, too.
std::uint64_t seed_of(const PeerId& peer, std::uint64_t first_sample) {
    Bytes bytes = base::to_bytes(peer.bytes());
    base::put_u64_be(bytes, first_sample);
    const Digest hash = security::sha256(bytes);
    return *base::ByteReader(hash.view()).u64_be();
}

// Refuses what no loop of one's own can do.
Ok check_run(const run::RunFile& run, bool hosts) {
    if (run.local) {
        return make_error(
            ErrorKind::unsupported,
            "this run makes local updates ([local] in its run file); only `dedloc host` and "
            "`dedloc join` can, a training loop of your own cannot take part");
    }
    const run::StopConfig& stop = run.stop;
    if (hosts && stop.accuracy > 0 && stop.steps == 0 && stop.samples == 0) {
        return make_error(
            ErrorKind::unsupported,
            "this run would never end: its only stop condition is stop.accuracy, and nobody "
            "measures that in a training loop of your own; say stop.steps or stop.samples too");
    }
    if (run.averaging.delayed) {
        log(LogLevel::warning,
            "trainer",
            "the run file says averaging.delayed, which a training loop of your own cannot do: "
            "step() waits for each average");
    }
    return {};
}

// The model as it is, and which one that is.
Result<std::shared_ptr<const state::Snapshot>> state_of(const run::RunFile& run,
                                                        const Gradients& gradients,
                                                        const Fingerprint& fingerprint) {
    std::vector<float> parameters(gradients.layout().parameters_count);
    std::vector<float> buffers(gradients.layout().buffers_count);
    gradients.store(parameters, buffers);
    DEDLOC_TRY(
        const std::shared_ptr<const state::Snapshot> plain,
        replica::initial_state(run, gradients.layout(), std::move(parameters), std::move(buffers)));
    state::SnapshotInfo info = plain->info();
    info.extra = fingerprint.to_bytes();
    return state::Snapshot::make(std::move(info), plain->sections());
}

Result<collab::Options> hosting(const OwnLoopOptions& given,
                                const Gradients& gradients,
                                const Fingerprint& fingerprint) {
    collab::Options run;
    run.secret = security::secure_random(run::run_secret_bytes);
    if (!given.run_file.empty()) {
        DEDLOC_TRY(run.run, run::read_run_file(given.run_file));
        if (run.run.access)
            return make_error(ErrorKind::unsupported,
                              "a run that lets in by invitation is hosted by `dedloc host`, which "
                              "holds its key; a loop of your own may join it");
    }
    if (given.resume.empty()) {
        DEDLOC_TRY(run.initial, state_of(run.run, gradients, fingerprint));
        return run;
    }
    DEDLOC_TRY(const FoundCheckpoint found, find_checkpoint(given.resume));
    for (const std::string& skipped : found.skipped)
        log(LogLevel::warning, "trainer", "{}", skipped);
    if (given.run_file.empty()) {
        const std::string path = found.path + "/run.toml";
        DEDLOC_TRY(run.run, run::parse_run_file(found.checkpoint.run_file, path));
    }
    run.initial = found.checkpoint.state->snapshot;
    DEDLOC_TRY_VOID(replica::check_state(run.run, gradients.layout(), *run.initial));
    DEDLOC_TRY_VOID(check_same_model(fingerprint, run.initial->info().extra));
    return run;
}

Result<collab::Options> joining(const OwnLoopOptions& given, const collab::Node& node) {
    DEDLOC_TRY(collab::Invitation invitation,
               collab::fetch_invitation(node, given.join, given.patience));
    collab::Options run;
    invitation.hand_over(run);
    run.run = std::move(invitation.run);
    return run;
}

Task<Result<collab::StepOutcome>> step_there(collab::Collaboration& collaboration,
                                             collab::Contribution contribution) {
    co_return co_await collaboration.step(std::move(contribution));
}

Task<Result<void>> leave_there(collab::Collaboration& collaboration, Duration patience) {
    co_await collaboration.leave(patience);
    co_return Result<void>();
}

}  // namespace

Result<std::unique_ptr<OwnLoop>> OwnLoop::join(std::unique_ptr<Gradients> gradients,
                                               const Fingerprint& fingerprint,
                                               OwnLoopOptions options) {
    const bool hosts = options.join.empty();
    if (hosts ? options.run_file.empty() && options.resume.empty()
              : !options.run_file.empty() || !options.resume.empty()) {
        return make_error(ErrorKind::bad_input,
                          "say either run_file or resume (to host) or join (to join)");
    }
    auto votes = std::make_unique<VoteWatch>(options.events);
    DEDLOC_TRY(auto node,
               collab::Node::open({.directory = options.directory,
                                   .listen = options.listen,
                                   .announce = options.announce,
                                   .relays = options.relays}));
    auto& service = node->add<collab::CollaborationService>(*node);
    DEDLOC_TRY(collab::Options run,
               hosts ? hosting(options, *gradients, fingerprint) : joining(options, *node));
    DEDLOC_TRY_VOID(check_run(run.run, hosts));
    run.layout = gradients->layout();
    run.name = options.name;
    run.checks_others = false;  // the loop computes what it likes
    run.join_patience = options.patience;
    const run::RunFile run_file = run.run;
    DEDLOC_TRY_VOID(service.begin(std::move(run), votes.get(), options.goes_on));
    const std::shared_ptr<const state::Snapshot> begun = service.collaboration().state();
    if (Ok same = check_same_model(fingerprint, begun->info().extra); !same) {
        service.leave(patience_at_destruction);  // or others would wait for us
        return same.error();
    }
    DEDLOC_TRY(SampleCounter counter, SampleCounter::open(node->disk(), "samples"));
    std::unique_ptr<OwnLoop> loop(new OwnLoop(std::move(votes),
                                              std::move(node),
                                              service,
                                              std::move(gradients),
                                              std::move(counter),
                                              run_file,
                                              std::move(options.goes_on)));
    loop->saver_.begin_at(begun->step());
    loop->load(begun);
    loop->computing_since_ = loop->node_->clock().now();
    return loop;
}

OwnLoop::OwnLoop(std::unique_ptr<VoteWatch> votes,
                 std::unique_ptr<collab::Node> node,
                 collab::CollaborationService& service,
                 std::unique_ptr<Gradients> gradients,
                 SampleCounter counter,
                 const run::RunFile& run,
                 std::function<bool()> goes_on)
    : goes_on_(std::move(goes_on)),
      votes_(std::move(votes)),
      node_(std::move(node)),
      service_(service),
      samples_max_(run.batch.target),
      norm_max_(collab::Learner::norm_max_of_one(run.averaging.norm_max, run.batch.target)),
      gradients_(std::move(gradients)),
      counter_(std::move(counter)),
      seed_(seed_of(node_->id(), counter_.next())),
      saver_(service_, run),
      driver_(service_.collaboration(), gradients_->layout(), counter_.next()) {}

OwnLoop::~OwnLoop() {
    try {
        (void)leave(patience_at_destruction);  // nobody is there to be told
    } catch (const std::exception& failure) {
        log(LogLevel::warning, "trainer", "leaving: {}", failure.what());
    }
}

void OwnLoop::load(const std::shared_ptr<const state::Snapshot>& snapshot) {
    if (!snapshot) return;
    gradients_->load(replica::parameters_of(*snapshot), replica::buffers_of(*snapshot));
    loaded_ = snapshot;
}

bool OwnLoop::load_newest() {
    const std::shared_ptr<const state::Snapshot> newest = collaboration().state();
    const bool is_another = loaded_.lock() != newest;
    load(newest);
    return is_another;
}

void OwnLoop::load_last() {
    if (has_last_) return;
    (void)load_newest();
    has_last_ = true;
}

void OwnLoop::drop() {
    gradients_->leave_out();
    gradients_->forget_sum();
    driver_.forget(counter_.next());
}

// The gradients to the sums, and their numbers. Without both there are no samples to hand in.
Result<void> OwnLoop::add(std::uint64_t samples, double loss_sum) {
    const auto lose = [this] {
        gradients_->forget_sum();
        driver_.forget(counter_.next());
    };
    try {
        gradients_->add(static_cast<double>(samples));
    } catch (...) {
        lose();
        throw;
    }
    const Result<collab::CounterRange> range = counter_.take(samples);
    if (!range) {
        lose();
        return range.error();
    }
    not_finite_.end_row();
    const TimePoint now = node_->clock().now();
    driver_.computed(*range, {.loss_sum = loss_sum}, to_seconds(now - computing_since_));
    computing_since_ = now;
    return {};
}

Result<void> OwnLoop::leave_out(std::uint64_t samples) {
    gradients_->leave_out();
    DEDLOC_TRY(const collab::CounterRange range, counter_.take(samples));
    driver_.left_out(range);
    computing_since_ = node_->clock().now();
    return not_finite_.one_more();
}

Result<bool> OwnLoop::step(std::int64_t samples, double mean_loss) {
    if (step_.valid()) return hand_in();  // an earlier one was cancelled
    if (finished()) return !left_ && load_newest();
    DEDLOC_TRY_VOID(end_without_votes());
    if (samples <= 0) return make_error(ErrorKind::bad_input, "step() needs the number of samples");
    const auto count = static_cast<std::uint64_t>(samples);
    if (count > samples_max_) {
        return make_error(ErrorKind::bad_input,
                          "this run takes at most {} samples a step(); the run file's batch.target "
                          "says so",
                          samples_max_);
    }
    if (!gradients_->has_gradient()) {
        return make_error(ErrorKind::bad_input,
                          "no gradient: call backward() on a loss of the model that joined, before "
                          "step()");
    }
    if (!gradients_->is_sound(norm_max_ / std::sqrt(static_cast<double>(count))))
        DEDLOC_TRY_VOID(leave_out(count));
    else
        DEDLOC_TRY_VOID(add(count, mean_loss * static_cast<double>(samples)));
    return hand_in_if_due();
}

Result<bool> OwnLoop::hand_in_if_due() {
    if (collaboration().is_to_compute()) return false;
    return hand_in();
}

Result<bool> OwnLoop::hand_in(std::future<Result<void>>* gone) {
    if (!step_.valid()) {
        auto contribution = driver_.hand_in(
            /*ahead=*/false,
            [this](std::span<float> sum, std::span<float> buffers, std::uint64_t samples) {
                gradients_->take(sum, buffers, samples);
            });
        step_ = runtime::spawn_future(
            node_->spawn(), "step", step_there(collaboration(), std::move(contribution)));
    }
    // Once we are gone no round ends here any more: whoever waits there waits for ever, until the
    // session ends.
    while (step_.wait_for(leave_poll) != std::future_status::ready) {
        if (gone != nullptr) {
            if (gone->wait_for(0s) == std::future_status::ready) return false;
            continue;
        }
        DEDLOC_TRY_VOID(end_without_votes());
        if (goes_on_ && !goes_on_())
            return make_error(ErrorKind::cancelled, "step() was told not to wait any more");
    }
    std::future<Result<collab::StepOutcome>> made = std::move(step_);
    const Result<collab::StepOutcome> outcome = runtime::wait_for_result(made);
    (void)driver_.ended(outcome);
    if (!outcome && outcome.error().kind() == ErrorKind::cancelled) return false;
    if (!outcome) return outcome.error();
    load(outcome->state);
    DEDLOC_TRY_VOID(refused_.next(/*sound=*/!outcome->refused));
    save_if_due();
    computing_since_ = node_->clock().now();
    return true;
}

// Training goes on where there is no room for a checkpoint; leave() tries again.
void OwnLoop::save_if_due() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (!saver_.is_due(*state)) return;
    const auto saved = saver_.save(std::move(state));
    if (!saved) log(LogLevel::warning, "trainer", "no checkpoint: {}", saved.error().message());
}

Result<void> OwnLoop::save_last() {
    std::shared_ptr<const state::Snapshot> state = collaboration().state();
    if (saver_.saves() && !saver_.has_saved(state)) DEDLOC_TRY_VOID(saver_.save(std::move(state)));
    return {};
}

Result<void> OwnLoop::leave(Duration patience) {
    if (!left_) {
        parting_ =
            runtime::spawn_future(node_->spawn(), "leave", leave_there(collaboration(), patience));
        left_ = true;
    }
    if (parting_.valid()) {
        // The collaboration waits for our last samples, so they are handed in meanwhile.
        if (step_.valid() || driver_.samples().size() > 0) DEDLOC_TRY_VOID(hand_in(&parting_));
        (void)runtime::wait_for_result(parting_);  // cancelled: the session was stopped: left, too
    }
    // Others may have made steps since the last one here.
    load_last();
    DEDLOC_TRY_VOID(counter_.close());
    return save_last();
}

Result<void> OwnLoop::end_without_votes() {
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

std::string OwnLoop::join_string() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.join_string(); });
}

membership::Status OwnLoop::status() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.status(); });
}

std::string OwnLoop::state_hash() const { return status().state_hash.hex(); }

std::vector<membership::Status> OwnLoop::peers() const {
    collab::Collaboration& collaboration = this->collaboration();
    return node_->run_on_network_thread([&collaboration] { return collaboration.peers(); });
}

}  // namespace dedloc::trainer
