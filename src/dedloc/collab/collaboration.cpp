#include "dedloc/collab/collaboration.h"

#include <algorithm>
#include <cmath>

#include "dedloc/collab/collaboration_impl.h"
#include "dedloc/collab/unsent_file.h"
#include "dedloc/run/join_string.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t join_string_peers = 8;
constexpr Duration looks_for_run = 8s;  // a host that resumes it

std::string number(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

Result<std::unique_ptr<Collaboration>> make_planted(runtime::Node node,
                                                    p2p::Host& host,
                                                    const security::Signer& signer,
                                                    const security::Verifier& verifier,
                                                    CollaborationOptions options,
                                                    events::EventSink* events,
                                                    Planted planted) {
    if (options.bootstrap.empty() && !options.initial && options.role == membership::Role::trainer)
        return make_error(ErrorKind::bad_input, "a host needs a starting state");
    auto made = std::make_unique<CollaborationImpl>(
        node, host, std::move(options), events, std::move(planted));
    DEDLOC_TRY_VOID(made->prepare(signer, verifier));
    return std::unique_ptr<Collaboration>(std::move(made));
}

Result<std::unique_ptr<Collaboration>> Collaboration::make(runtime::Node node,
                                                           p2p::Host& host,
                                                           const security::Signer& signer,
                                                           const security::Verifier& verifier,
                                                           CollaborationOptions options,
                                                           events::EventSink* events) {
    return make_planted(node, host, signer, verifier, std::move(options), events, {});
}

Task<Result<std::optional<validation::CheckJob>>> Collaboration::take_check() {
    co_return std::optional<validation::CheckJob>();
}

Task<Result<void>> Collaboration::checked(validation::CheckResult) { co_return Result<void>(); }

// Each process begins its statuses at the milliseconds of its wall clock.
CollaborationImpl::CollaborationImpl(runtime::Node node,
                                     p2p::Host& host,
                                     CollaborationOptions options,
                                     events::EventSink* events,
                                     Planted planted)
    : node_(node),
      host_(host),
      options_(std::move(options)),
      planted_(std::move(planted)),
      computed_(options_, planted_),
      publisher_(host,
                 options_.role,
                 options_.name,
                 static_cast<std::uint64_t>(node.clock.wall_now() * 1e3)),
      log_(node.clock,
           host.id(),
           options_.name,
           events,
           [this] { return backend_ ? backend_->open_step() : 0; }),
      changed_(node.executor),
      scope_(node.executor) {}

CollaborationImpl::~CollaborationImpl() = default;

Result<void> CollaborationImpl::prepare(const security::Signer& signer,
                                        const security::Verifier& verifier) {
    access_ = std::make_unique<RunAccess>(node_, host_, signer, verifier, options_, log_);
    membership_ = std::make_unique<membership::Membership>(node_,
                                                           host_,
                                                           signer,
                                                           verifier,
                                                           options_.run,
                                                           access_->authorizer(),
                                                           options_.status_interval,
                                                           options_.peers_max,
                                                           stranger_protocols(options_.table_use),
                                                           membership_callbacks());
    access_->is_for(*membership_);
    meeting_ = std::make_unique<Meeting>(node_, host_, options_, *membership_);
    BackendContext context{.node = node_,
                           .host = host_,
                           .signer = signer,
                           .verifier = verifier,
                           .options = options_,
                           .planted = planted_,
                           .membership = *membership_,
                           .contributions = computed_.contributions,
                           .claims = computed_.claims,
                           .progress = computed_.progress,
                           .report = computed_.report,
                           .listener = *this,
                           .teller = log_,
                           .judge = access_->judge()};
    DEDLOC_TRY(backend_, make_backend(std::move(context)));
    shared_.emplace(
        Shared{node_, options_, *membership_, *backend_, publisher_, log_, ending_, changed_});
    steps_ = std::make_unique<TrainerSteps>(*shared_, computed_);
    if (shared_->trains() && options_.run.fragments() > 1) waiting_.emplace(node_);
    return {};
}

membership::Membership::Callbacks CollaborationImpl::membership_callbacks() {
    membership::Membership::Callbacks callbacks;
    callbacks.own_status = [this] { return status(); };
    callbacks.on_status = [this](const membership::Status& before, const membership::Status& now) {
        on_status(before, now);
    };
    callbacks.on_joined = [this](const membership::Status& peer) {
        log_.peer_joined(peer, access_->person(peer.peer));
        access_->greet(peer.peer);
        changed_.pulse();
    };
    callbacks.why_kept_out = [this](const PeerId& peer) { return backend_->why_kept_out(peer); };
    callbacks.on_lost = [this](const membership::Status& peer, bool in_order) {
        log_.peer_lost(peer, in_order);
        steps_->refresh_progress();
        changed_.pulse();
    };
    callbacks.on_refused = [this](const PeerId& peer, const Error& why) {
        log_.tell(events::AdmissionRefused{}, peer, why.message());
    };
    callbacks.on_refused_by = callbacks.on_refused;
    callbacks.on_key_used_twice = [this](const Error& why) { access_->key_is_used_twice(why); };
    return callbacks;
}

// ---- life ---------------------------------------------------------------------------------------

Task<Result<void>> CollaborationImpl::start() {
    DEDLOC_CO_TRY_VOID(access_->start(options_.admitted));
    membership_->start();
    attachment_server_ = std::make_unique<membership::AttachmentServer>(
        host_, run::run_hash(options_.run), access_->authorizer(), options_.attachments);
    backend_->start();
    Result<void> started;
    if (shared_->trains() && options_.bootstrap.empty())
        started = co_await backend_->host(options_.initial);
    else if (shared_->trains() && options_.initial)
        started = co_await start_again();
    else
        started = co_await start_as_newcomer();
    if (!started || !shared_->trains()) co_return started;
    if (replica::UnsentGradients* unsent = computed_.contributions.unsent()) {
        UnsentFile file(node_, log_);
        const double samples = static_cast<double>(options_.run.batch.target);
        co_await file.take_up(*unsent, samples);
    }
    if (waiting_) co_await look_for_lost_steps();
    computed_.report.begin(node_.clock.now());
    scope_.spawn("watch progress", watch_progress());
    shared_->set_phase(membership::Phase::computing);
    steps_->begin_computing();
    check_stop_conditions();
    co_return Result<void>();
}

// A process before this one may have been killed.
Task<void> CollaborationImpl::look_for_lost_steps() {
    const WaitingSamples lost = co_await waiting_->take_up();
    if (lost.empty()) co_return;
    const std::uint64_t samples = total_of(lost, options_.layout.vector_count());
    log_.tell(events::SamplesDropped{.samples = samples},
              {},
              fmt::format("the process before this one was killed: its local steps on fragments "
                          "whose turn had not come are lost, {}; {} samples by their part of the "
                          "model",
                          listed(lost),
                          samples));
}

Task<Result<void>> CollaborationImpl::start_as_newcomer() {
    shared_->set_phase(membership::Phase::starting);
    const TimePoint deadline = node_.clock.now() + options_.join_timeout;
    DEDLOC_CO_TRY_VOID(co_await meeting_->meet_somebody(deadline));
    co_return co_await join_those_met(deadline);
}

Task<Result<void>> CollaborationImpl::join_those_met(TimePoint deadline) {
    scope_.spawn("meet bootstrap peers", meeting_->keep_meeting());
    if (shared_->trains()) shared_->set_phase(membership::Phase::downloading);
    DEDLOC_CO_TRY_VOID(co_await backend_->join(deadline));
    if (options_.role == membership::Role::aggregator)
        shared_->set_phase(membership::Phase::waiting);
    co_return Result<void>();
}

// A host that resumes its run. Beside one that goes on it would begin a branch of its own, which
// the others would never follow.
Task<Result<void>> CollaborationImpl::start_again() {
    shared_->set_phase(membership::Phase::starting);
    auto lives = co_await meeting_->find_living_run(node_.clock.now() + looks_for_run);
    if (!lives) co_return std::move(lives).error();
    if (*lives) co_return co_await join_those_met(node_.clock.now() + options_.join_timeout);
    scope_.spawn("meet bootstrap peers", meeting_->keep_meeting());
    co_return co_await backend_->host(options_.initial);
}

Task<void> CollaborationImpl::leave(Duration grace_period) {
    if (!shared_->trains() || ending_.tasks_stopped) {
        co_await leave_as_helper(grace_period);
        co_return;
    }
    ending_.leave_by = node_.clock.now() + grace_period;
    ending_.leaving = true;
    backend_->set_leaving();
    changed_.pulse();
    while (node_.clock.now() < ending_.leave_by && is_waited_for())
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 50ms);
    steps_->drop_rest();
    replica::UnsentGradients* const unsent = computed_.contributions.unsent();
    if (unsent && unsent->end(backend_->brought_to_own_sums()))
        log_.tell(events::UnsentLost{},
                  {},
                  "the collaboration was left while a step was being made: what this peer had sent "
                  "for it is in that step, or lost");
    if (waiting_) {
        const WaitingSamples lost = co_await waiting_->end();
        steps_->drop_waiting(total_of(lost, options_.layout.vector_count()));
    }
    shared_->set_phase(membership::Phase::leaving);
    co_await membership_->say_goodbye();
    log_.tell(events::Left{}, {}, "left the collaboration");
    if (unsent) {
        UnsentFile file(node_, log_);
        co_await file.keep(*unsent);
    }
    co_await stop();
}

void CollaborationImpl::leave_within(Duration grace_period) {
    ending_.leave_by = std::min(ending_.leave_by, node_.clock.now() + grace_period);
    changed_.pulse();
}

Task<void> CollaborationImpl::leave_as_helper(Duration grace_period) {
    ending_.leaving = true;
    if (!ending_.tasks_stopped) co_await backend_->part(node_.clock.now() + grace_period);
    shared_->set_phase(membership::Phase::leaving);
    co_await membership_->say_goodbye();
    co_await stop();
}

// The trainer hands in what it has; a run that is over waits for those who still apply its end.
bool CollaborationImpl::is_waited_for() const {
    if (!ending_.over) return steps_->has_something_to_bring();
    return std::ranges::any_of(membership_->live(), [this](const membership::KnownPeer* peer) {
        const membership::Status& status = peer->status;
        return status.role == membership::Role::trainer &&
               status.phase != membership::Phase::leaving && status.step < backend_->open_step();
    });
}

Task<void> CollaborationImpl::stop() {
    if (ending_.tasks_stopped) co_return;
    ending_.tasks_stopped = true;
    ending_.over = true;
    changed_.pulse();
    co_await scope_.stop();
    if (waiting_) co_await waiting_->stop();
    co_await backend_->stop();
    attachment_server_.reset();
    co_await access_->stop();
    co_await membership_->stop();
}

Task<void> CollaborationImpl::watch_progress() {
    for (;;) {
        backend_->poll();
        steps_->poll();
        log_.tell_of_left_out();
        co_await node_.clock.sleep_for(options_.status_interval / 5);
    }
}

// ---- what happens -------------------------------------------------------------------------------

void CollaborationImpl::kept_out(std::string why) {
    if (!ending_.kept_out.empty()) return;
    ending_.kept_out = std::move(why);
    steps_->make_due();
    changed_.pulse();
}

void CollaborationImpl::on_status(const membership::Status& before, const membership::Status& now) {
    backend_->on_status(before, now);
    if (options_.role == membership::Role::aggregator) check_stop_conditions();
    if (!shared_->trains() || !backend_->started()) return;
    if (before.accuracy_step != now.accuracy_step) check_stop_conditions();
    steps_->refresh_progress();
}

void CollaborationImpl::certified(bool new_branch) {
    ++accounts_.certificates;
    if (new_branch) ++accounts_.branches;
    access_->obey(backend_->base());
    if (shared_->trains()) return;
    membership_->push_now();
    check_stop_conditions();
}

void CollaborationImpl::state_replaced() {
    ++accounts_.branches;
    steps_->state_is_replaced();
}

void CollaborationImpl::applied(const events::StepMade& made) {
    const bool unprotected = made.at_work && *made.at_work < consensus::contributors_least;
    log_.tell(made,
              {},
              fmt::format("step {}: {} samples of {} peer{}{}",
                          made.step,
                          number(made.samples),
                          made.contributors,
                          made.contributors == 1 ? "" : "s",
                          unprotected ? fmt::format("; not protected yet: {} of {}",
                                                    *made.at_work,
                                                    consensus::contributors_least)
                                      : std::string()));
    check_stop_conditions();
    membership_->push_now();
}

void CollaborationImpl::check_stop_conditions() {
    const auto current = state();
    const std::optional<Reached> reached =
        current ? Reached{.step = current->step(),
                          .samples = static_cast<double>(current->info().samples)}
                : backend_->reached();
    if (ending_.over || !reached) return;
    double accuracy = publisher_.accuracy();
    for (const membership::KnownPeer* peer : membership_->live())
        accuracy = std::max(accuracy, peer->status.accuracy);
    if (!options_.run.stop.is_met(reached->step, reached->samples, accuracy)) return;
    ending_.over = true;
    log_.tell(
        events::RunOver{}, {}, fmt::format("the stop condition is met at step {}", reached->step));
    changed_.pulse();
}

void CollaborationImpl::report_evaluation(std::uint64_t step, const Evaluation& evaluation) {
    publisher_.set_accuracy(step, evaluation.accuracy);
    log_.tell(
        events::Evaluated{.step = step, .accuracy = evaluation.accuracy, .loss = evaluation.loss},
        {},
        std::isnan(evaluation.accuracy)
            ? fmt::format("step {}: loss {:.4f} on held-out data", step, evaluation.loss)
            : fmt::format("step {}: accuracy {:.2f} %", step, evaluation.accuracy * 100));
    check_stop_conditions();
    membership_->push_now();
}

// ---- the trainer's side -------------------------------------------------------------------------

// After any other outcome than a step the trainer begins anew, and tells what it has forgotten.
Task<Result<StepOutcome>> CollaborationImpl::step(Contribution contribution) {
    if (waiting_) waiting_->note(contribution.waiting);
    Result<StepOutcome> outcome = co_await steps_->step(std::move(contribution));
    if (waiting_ && (!outcome || outcome->kind != StepKind::stepped)) waiting_->note({});
    co_return outcome;
}

Task<Result<std::optional<validation::CheckJob>>> CollaborationImpl::take_check() {
    validation::GradientValidators* const checks = backend_->checks();
    co_return checks != nullptr ? checks->take() : std::nullopt;
}

Task<Result<void>> CollaborationImpl::checked(validation::CheckResult result) {
    validation::GradientValidators* const checks = backend_->checks();
    if (checks != nullptr) co_await checks->checked(std::move(result));
    co_return Result<void>();
}

// ---- what others see ----------------------------------------------------------------------------

membership::Status CollaborationImpl::status() const {
    membership::Status status = publisher_.next();
    steps_->describe(status);
    status.lets_in = access_->lets_in();
    backend_->describe(status);
    return status;
}

std::vector<membership::Status> CollaborationImpl::peers() const {
    std::vector<membership::Status> statuses{status()};
    for (const membership::KnownPeer* peer : membership_->live()) statuses.push_back(peer->status);
    std::ranges::sort(statuses, {}, &membership::Status::peer);
    return statuses;
}

std::string CollaborationImpl::join_string() const {
    run::JoinString join;
    join.run = run::run_hash(options_.run);
    join.secret = options_.secret;
    if (options_.run.access)
        if (auto authority = PeerId::from_text(options_.run.access->authority))
            join.authority = *std::move(authority);
    join.addresses = membership_->known_addresses(join_string_peers);
    join.anchor = backend_->anchor();
    return to_text(join);
}

Collaboration::Accounts CollaborationImpl::accounts() const {
    Accounts accounts = accounts_;
    accounts.samples_dropped = steps_->samples_dropped() + computed_.contributions.forgotten();
    accounts.samples_expired = computed_.contributions.samples_expired();
    accounts.samples_not_finite = steps_->samples_not_finite();
    return accounts;
}

void CollaborationImpl::set_caps(double upload_max, double download_max) {
    backend_->set_caps(upload_max, download_max);
    steps_->end_back_off();
}

}  // namespace dedloc::collab
