#include <algorithm>
#include <cmath>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/collab/collaboration_impl.h"
#include "dedloc/collab/round_options.h"
#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/run/join_string.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t join_string_peers = 8;
constexpr std::size_t others_least =
    2;  // that compute: with fewer, a peer that backs off is needed
constexpr Duration meeting_patience = 5s;  // with one address
constexpr Duration looks_for_run = 8s;     // a host that resumes it
constexpr int looks_least = 4;
constexpr Duration key_told_pause = 60s;   // all members say that a key is used twice
constexpr Duration meeting_pause = 300ms;  // until all addresses are tried again

// The log has room for every peer that a run may know.
static_assert(events::peers_told_of_max >= membership::peers_max);

std::string number(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

Result<std::unique_ptr<Collaboration>> Collaboration::make(runtime::Node node,
                                                           p2p::Host& host,
                                                           const security::Signer& signer,
                                                           const security::Verifier& verifier,
                                                           Options options,
                                                           events::EventSink* events) {
    if (options.bootstrap.empty() && !options.initial && options.role == membership::Role::trainer)
        return make_error(ErrorKind::bad_input, "a host needs a starting state");
    auto made = std::make_unique<CollaborationImpl>(node, host, std::move(options), events);
    DEDLOC_TRY_VOID(made->prepare(signer, verifier));
    return std::unique_ptr<Collaboration>(std::move(made));
}

Task<Result<std::optional<validation::CheckJob>>> Collaboration::take_check() {
    co_return std::optional<validation::CheckJob>();
}

Task<Result<void>> Collaboration::checked(validation::CheckResult) { co_return Result<void>(); }

// Each process begins its statuses at the milliseconds of its wall clock.
CollaborationImpl::CollaborationImpl(runtime::Node node,
                                     p2p::Host& host,
                                     Options options,
                                     events::EventSink* events)
    : node_(node),
      host_(host),
      options_(std::move(options)),
      events_(events),
      progress_(options_.run.batch.target, options_.status_interval),
      contributions_(replica::DeferredGradients(options_.layout.vector_count(),
                                                options_.bugs,
                                                options_.layout.parameters_count,
                                                samples_max(options_.run.batch))),
      claims_(options_.run.batch, options_.run.averaging.delayed),
      publisher_(host,
                 options_.role,
                 options_.name,
                 static_cast<std::uint64_t>(node.clock.wall_now() * 1e3)),
      changed_(node.executor),
      scope_(node.executor) {}

CollaborationImpl::~CollaborationImpl() = default;

Result<void> CollaborationImpl::prepare(const security::Signer& signer,
                                        const security::Verifier& verifier) {
    make_admission(signer, verifier);
    membership_ = std::make_unique<membership::Membership>(node_,
                                                           host_,
                                                           signer,
                                                           verifier,
                                                           options_.run,
                                                           access_.authorizer,
                                                           options_.status_interval,
                                                           options_.peers_max,
                                                           stranger_protocols(options_.table_use),
                                                           membership_callbacks());
    BackendContext context{.node = node_,
                           .host = host_,
                           .signer = signer,
                           .verifier = verifier,
                           .options = options_,
                           .membership = *membership_,
                           .contributions = contributions_,
                           .claims = claims_,
                           .progress = progress_,
                           .report = report_,
                           .listener = *this,
                           .teller = *this,
                           .judge = access_.judge ? *access_.judge : consensus::no_new_orders()};
    DEDLOC_TRY(backend_, make_backend(std::move(context)));
    return {};
}

void CollaborationImpl::make_admission(const security::Signer& signer,
                                       const security::Verifier& verifier) {
    if (!options_.run.access) {
        access_.authorizer = std::make_shared<membership::SecretAuthorizer>(options_.secret);
        return;
    }
    const auto authority = PeerId::from_text(options_.run.access->authority);
    DEDLOC_CHECK(authority.has_value(), "the run file was checked");
    auto authorizer = std::make_shared<admission::TokenAuthorizer>(
        run::run_hash(options_.run), *authority, verifier, node_.clock);
    access_.authorizer = authorizer;
    access_.judge =
        std::make_unique<admission::RevocationJudge>(host_, authorizer, consensus::no_new_orders());
    access_.admission =
        std::make_unique<admission::AdmissionService>(node_,
                                                      host_,
                                                      std::move(authorizer),
                                                      options_.issuer,
                                                      admission_callbacks(signer, verifier));
}

admission::AdmissionService::Callbacks CollaborationImpl::admission_callbacks(
    const security::Signer& signer, const security::Verifier& verifier) {
    admission::AdmissionService::Callbacks callbacks;
    const auto live = [this](bool organisers_only) {
        std::vector<PeerId> peers;
        for (const membership::KnownPeer* peer : membership_->live())
            if (!organisers_only || peer->status.lets_in) peers.push_back(peer->status.peer);
        return peers;
    };
    callbacks.members = [live] { return live(false); };
    callbacks.organisers = [live] { return live(true); };
    callbacks.tell = [this](events::Any what, PeerId peer, std::string text) {
        tell(std::move(what), std::move(peer), std::move(text));
    };
    callbacks.part_from_revoked = [this] { membership_->look_at_admission(); };
    callbacks.make_issuer = [this, &signer, &verifier](const admission::Delegation& delegation,
                                                       const std::string& name) {
        admission::BookIssuer::Right right;
        // The node's own, which outlives what runs on it.
        right.signer = std::shared_ptr<const security::Signer>(&signer, [](const auto*) {});
        right.delegation = delegation;
        right.own_name = name;
        auto issuer = admission::BookIssuer::open(
            node_.disk, node_.clock, verifier, run::run_hash(options_.run), std::move(right));
        if (!issuer) tell(events::RenewalFailed{}, {}, issuer.error().message());
        return issuer ? std::shared_ptr<admission::Issuer>(*std::move(issuer)) : nullptr;
    };
    return callbacks;
}

membership::Membership::Callbacks CollaborationImpl::membership_callbacks() {
    membership::Membership::Callbacks callbacks;
    callbacks.own_status = [this] { return status(); };
    callbacks.on_status = [this](const membership::Status& before, const membership::Status& now) {
        on_status(before, now);
    };
    callbacks.on_joined = [this](const membership::Status& peer) {
        names_.set_name(peer.peer, peer.name);
        std::string person = access_.authorizer->person(peer.peer);
        std::string device = names_.of(peer.peer);
        if (!person.empty()) names_.set_person(peer.peer, person);
        events::PeerJoined joined;
        if (!peer.name.empty()) joined.name = peer.name;
        tell(std::move(joined), peer.peer, fmt::format("{} joined", names_.of(peer.peer)));
        if (!person.empty()) {
            std::string text = fmt::format("{} is a device of {}", device, person);
            tell(events::PersonSeen{.person = std::move(person)}, peer.peer, std::move(text));
        }
        if (access_.admission) access_.admission->greet(peer.peer);
        changed_.pulse();
    };
    callbacks.why_kept_out = [this](const PeerId& peer) { return backend_->why_kept_out(peer); };
    callbacks.on_lost = [this](const membership::Status& peer, bool in_order) {
        tell(in_order ? events::Any(events::PeerLeft{}) : events::PeerLost{},
             peer.peer,
             fmt::format(
                 "{} {}", names_.of(peer.peer), in_order ? "left" : "is gone without a word"));
        refresh_progress();
        changed_.pulse();
    };
    callbacks.on_refused = [this](const PeerId& peer, const Error& why) {
        tell(events::AdmissionRefused{}, peer, why.message());
    };
    callbacks.on_refused_by = callbacks.on_refused;
    callbacks.on_key_used_twice = [this](const Error& why) {
        if (node_.clock.now() < access_.key_told_again) return;
        access_.key_told_again = node_.clock.now() + key_told_pause;
        tell(events::KeyUsedTwice{}, {}, why.message());
    };
    return callbacks;
}

// ---- life ---------------------------------------------------------------------------------------

Task<Result<void>> CollaborationImpl::start() {
    if (access_.admission) DEDLOC_CO_TRY_VOID(access_.admission->start(options_.admitted));
    membership_->start();
    attachment_server_ = std::make_unique<membership::AttachmentServer>(
        host_, run::run_hash(options_.run), access_.authorizer, options_.attachments);
    backend_->start();
    names_.set_name(host_.id(), options_.name);
    Result<void> started;
    if (trains() && options_.bootstrap.empty())
        started = co_await backend_->host(options_.initial);
    else if (trains() && options_.initial)
        started = co_await start_again();
    else
        started = co_await start_as_newcomer();
    if (!started || !trains()) co_return started;
    report_.begin(node_.clock.now());
    scope_.spawn("watch progress", watch_progress());
    set_phase(membership::Phase::computing);
    begin_computing();
    check_stop_conditions();
    co_return Result<void>();
}

Task<Result<void>> CollaborationImpl::start_as_newcomer() {
    set_phase(membership::Phase::starting);
    const TimePoint deadline = node_.clock.now() + options_.join_patience;
    DEDLOC_CO_TRY_VOID(co_await meet_somebody(deadline));
    co_return co_await join_those_met(deadline);
}

Task<Result<void>> CollaborationImpl::join_those_met(TimePoint deadline) {
    scope_.spawn("meet bootstrap peers", meet_bootstrap());
    if (trains()) set_phase(membership::Phase::downloading);
    DEDLOC_CO_TRY_VOID(co_await backend_->join(deadline));
    if (options_.role == membership::Role::aggregator) set_phase(membership::Phase::waiting);
    co_return Result<void>();
}

// A host that resumes its run. Beside one that goes on it would begin a branch of its own, which
// the others would never follow.
Task<Result<void>> CollaborationImpl::start_again() {
    set_phase(membership::Phase::starting);
    auto lives = co_await find_living_run(node_.clock.now() + looks_for_run);
    if (!lives) co_return std::move(lives).error();
    if (*lives) co_return co_await join_those_met(node_.clock.now() + options_.join_patience);
    scope_.spawn("meet bootstrap peers", meet_bootstrap());
    co_return co_await backend_->host(options_.initial);
}

bool CollaborationImpl::sees_living_run() const {
    return std::ranges::any_of(membership_->live(), [](const membership::KnownPeer* peer) {
        return peer->status.role == membership::Role::trainer &&
               !peer->status.certificate.is_zero();
    });
}

// False: nobody answers who has its state. Where all refuse at once, that is known soon.
Task<Result<bool>> CollaborationImpl::find_living_run(TimePoint deadline) {
    for (int looks = 0; looks < looks_least || !membership_->live().empty(); ++looks) {
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const auto parts = run::split_peer_address(address);
            if (parts && membership_->is_member(parts->peer)) continue;
            const TimePoint until = std::min(deadline, node_.clock.now() + meeting_patience);
            auto peer = co_await membership_->meet(address, until);
            if (peer || peer.error().kind() != ErrorKind::denied || !options_.run.access) continue;
            // This peer is out of the run: a branch beside it would have no members.
            co_return std::move(peer).error();
        }
        if (sees_living_run()) co_return true;
        if (node_.clock.now() >= deadline) break;
        co_await node_.clock.sleep_for(meeting_pause);
    }
    co_return sees_living_run();
}

Task<Result<void>> CollaborationImpl::meet_somebody(TimePoint deadline) {
    Error last = make_error(ErrorKind::bad_input, "the join string names no address");
    while (node_.clock.now() < deadline) {
        std::optional<Error> other_run;  // what one of them says who trains another by now
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const TimePoint until = std::min(deadline, node_.clock.now() + meeting_patience);
            auto peer = co_await membership_->meet(address, until);
            if (peer) co_return Result<void>();
            last = std::move(peer).error().with_context(address);
            if (last.kind() == ErrorKind::denied) co_return last;
            if (last.kind() == ErrorKind::conflict) other_run = last;
        }
        if (other_run) co_return *std::move(other_run);
        co_await node_.clock.sleep_for(meeting_pause);
    }
    co_return last.with_context("nobody of the run could be reached");
}

// Meets everybody the join string names, not only the first who answers: that one may be as new as
// we are and know nobody who has the state.
Task<void> CollaborationImpl::meet_bootstrap() {
    Duration pause = 1s;
    for (;;) {
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const auto parts = run::split_peer_address(address);
            if (parts && (parts->peer == host_.id() || membership_->is_member(parts->peer)))
                continue;
            const TimePoint until = node_.clock.now() + meeting_patience;
            (void)co_await membership_->meet(address, until);
        }
        co_await node_.clock.sleep_for(pause);
        pause = membership_->live().empty() ? 1s : std::min<Duration>(pause * 2, 30s);
    }
}

Task<void> CollaborationImpl::leave(Duration patience) {
    if (!trains() || ending_.tasks_stopped) {
        co_await leave_as_helper(patience);
        co_return;
    }
    leaving_.deadline = node_.clock.now() + patience;
    leaving_.begun = true;
    backend_->set_leaving();
    changed_.pulse();
    while (node_.clock.now() < leaving_.deadline && is_waited_for())
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 50ms);
    tell_of_forgotten();
    if (!ending_.over)
        drop(contributions_.samples() + contributions_.samples_ahead(),
             "the collaboration was left before a step was due");
    set_phase(membership::Phase::leaving);
    co_await membership_->say_goodbye();
    tell(events::Left{}, {}, "left the collaboration");
    co_await stop();
}

Task<void> CollaborationImpl::leave_as_helper(Duration patience) {
    leaving_.begun = true;
    if (!ending_.tasks_stopped) co_await backend_->part(node_.clock.now() + patience);
    set_phase(membership::Phase::leaving);
    co_await membership_->say_goodbye();
    co_await stop();
}

// The trainer hands in what it has; a run that is over waits for those who still apply its end.
bool CollaborationImpl::is_waited_for() const {
    if (!ending_.over)
        return computes_at_.is_in_step || contributions_.samples() > 0 || trainer_runs_;
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
    co_await backend_->stop();
    attachment_server_.reset();
    if (access_.admission) co_await access_.admission->stop();
    co_await membership_->stop();
}

Task<void> CollaborationImpl::watch_progress() {
    for (;;) {
        backend_->look();
        refresh_progress();
        if (back_off_.is_on() && is_needed()) end_back_off();
        if (const std::uint64_t fresh = not_finite_.to_tell(node_.clock.now()); fresh > 0)
            tell(events::NotFinite{.samples = fresh},
                 {},
                 fmt::format(
                     "{} samples are left out: {}their loss or gradient is not finite, or "
                     "beyond averaging.norm_max ({} so far)",
                     fresh,
                     options_.run.task.section("experts") != nullptr
                         ? "too few experts answer (`dedloc watch` shows who serves them), or "
                         : "",
                     not_finite_.all()));
        tell_of_forgotten();
        tell_of_left_out();
        co_await node_.clock.sleep_for(options_.status_interval / 5);
    }
}

// ---- what happens -------------------------------------------------------------------------------

// The log says whose it is.
template <typename Begin>
void CollaborationImpl::introduce(Begin& begin) const {
    if (!options_.name.empty()) begin.name = options_.name;
    begin.id = host_.id().text();
}

void CollaborationImpl::tell(events::Any what, PeerId peer, std::string text) {
    if (events_ == nullptr) return;
    if (const auto* const seen = std::get_if<events::PersonSeen>(&what))
        names_.set_person(peer.is_empty() ? host_.id() : peer, seen->person);
    events::Event event;
    event.time = node_.clock.wall_now();
    event.peer = std::move(peer);
    event.step = backend_ ? backend_->open_step() : 0;
    event.text = names_.in(text);
    event.what = std::move(what);
    if (auto* const joined = std::get_if<events::Joined>(&event.what)) introduce(*joined);
    if (auto* const started = std::get_if<events::RunStarted>(&event.what)) introduce(*started);
    if (event_rate_.may_record(event, node_.clock.now())) events_->record(event);
}

void CollaborationImpl::tell_of_left_out() {
    for (events::EventsLeftOut& left_out : event_rate_.to_tell(node_.clock.now())) {
        std::string text =
            fmt::format("{} more events of the kind {} are left out: others cause too many",
                        left_out.count,
                        left_out.of);
        tell(std::move(left_out), {}, std::move(text));
    }
}

void CollaborationImpl::kept_out(std::string why) {
    if (!ending_.kept_out.empty()) return;
    ending_.kept_out = std::move(why);
    step_due_ = true;
    changed_.pulse();
}

void CollaborationImpl::on_status(const membership::Status& before, const membership::Status& now) {
    backend_->on_status(before, now);
    if (options_.role == membership::Role::aggregator) check_stop_conditions();
    if (!trains() || !backend_->started()) return;
    if (before.accuracy_step != now.accuracy_step) check_stop_conditions();
    refresh_progress();
}

void CollaborationImpl::certified(bool new_branch) {
    ++accounts_.certificates;
    if (new_branch) ++accounts_.branches;
    obey_orders();
    if (trains()) return;
    membership_->push_now();
    check_stop_conditions();
}

void CollaborationImpl::obey_orders() {
    const consensus::Base* const base = access_.admission && backend_ ? backend_->base() : nullptr;
    if (base == nullptr) return;
    for (const auto& order : base->orders.list())
        if (base->orders.revoking(order.person) == &order) access_.admission->obey(order.person);
}

void CollaborationImpl::state_replaced() {
    ++accounts_.branches;
    computes_at_.state_is_replaced = true;
}

void CollaborationImpl::state_is(std::shared_ptr<const state::Snapshot> state) {
    state_.set(std::move(state));
    // The trainer sees that its state is old at its next look.
    if (!computes_at_.is_in_step && computes_at_.step.step != 0 && !trainer_is_current())
        step_due_ = true;
    changed_.pulse();
}

void CollaborationImpl::applied(const events::StepMade& made) {
    const bool unprotected = made.at_work && *made.at_work < consensus::contributors_least;
    tell(made,
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

void CollaborationImpl::step_wanted() {
    if (!step_due_.exchange(true)) changed_.pulse();
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
    tell(events::RunOver{}, {}, fmt::format("the stop condition is met at step {}", reached->step));
    changed_.pulse();
}

void CollaborationImpl::report_evaluation(std::uint64_t step, const Evaluation& evaluation) {
    publisher_.set_accuracy(step, evaluation.accuracy);
    tell(events::Evaluated{.step = step, .accuracy = evaluation.accuracy, .loss = evaluation.loss},
         {},
         std::isnan(evaluation.accuracy)
             ? fmt::format("step {}: loss {:.4f} on held-out data", step, evaluation.loss)
             : fmt::format("step {}: accuracy {:.2f} %", step, evaluation.accuracy * 100));
    check_stop_conditions();
    membership_->push_now();
}

// ---- backing off --------------------------------------------------------------------------------

// A trainer that computes what does not enter the model computes for nothing.
void CollaborationImpl::decided(BackOff::Fate fate, const PeerId& leader) {
    if (!options_.run.averaging.leave_out_slow) return;
    const bool was_on = back_off_.is_on();
    const bool begins = back_off_.step_made(fate, leader);
    if (was_on != back_off_.is_on()) backend_->set_left_out(back_off_.is_on());
    if (begins) tell_of_back_off();
}

void CollaborationImpl::tell_of_back_off() {
    const double up = backend_->upload_bytes_per_s();
    const double down = backend_->download_bytes_per_s();
    back_off_.set_link_at_begin(std::min(up, down));
    const auto megabit = [](double bytes_per_s) { return bytes_per_s * 8 / 1e6; };
    tell(events::LeftOut{.steps = back_off_.steps_left()},
         {},
         fmt::format("{} ({:.3g} Mb/s up, {:.3g} Mb/s down). We follow the run and try again in {} "
                     "steps; a faster line or a higher cap ends this at once",
                     back_off_.was_late()
                         ? "nothing of what we contribute reaches the others in time over our line"
                         : "rounds do without us: every step would take much longer than our "
                           "samples are worth with our line",
                     megabit(up),
                     megabit(down),
                     back_off_.steps_left()));
}

// A link that has become faster, or nobody to train together with the others any more.
bool CollaborationImpl::is_needed() const {
    const std::vector<const membership::KnownPeer*> live = membership_->live();
    const auto training = std::ranges::count_if(
        live, [](const membership::KnownPeer* peer) { return peer->status.is_training(); });
    return static_cast<std::size_t>(training) < others_least ||
           back_off_.is_another_link(
               std::min(backend_->upload_bytes_per_s(), backend_->download_bytes_per_s()));
}

void CollaborationImpl::end_back_off() {
    if (!back_off_.is_on()) return;
    back_off_.end();
    backend_->set_left_out(false);
    // It computes the next step's samples already, if it keeps some of this one.
    if (publisher_.phase() == membership::Phase::waiting && contributions_.computes_ahead() &&
        !computes_at_.is_in_step)
        set_phase(membership::Phase::computing);
    changed_.pulse();
}

// ---- what others see ----------------------------------------------------------------------------

void CollaborationImpl::set_phase(membership::Phase phase) {
    if (publisher_.set_phase(phase)) membership_->push_now();
}

membership::Status CollaborationImpl::status() const {
    membership::Status status = publisher_.next();
    // A peer that has the new state already, and has not begun to compute at it, has nothing for
    // the new step but what it computed ahead.
    if (back_off_.is_on())
        status.samples = 0;  // nobody shall count on them
    else if (trainer_is_current())
        status.samples = contributions_.samples();
    else if (contributions_.computes_ahead())
        status.samples = contributions_.samples_ahead();
    status.samples_per_s = progress_.samples_per_s();
    status.micro_batch_s = progress_.micro_batch_s();
    status.loss = contributions_.loss();
    status.committed_samples = contributions_.committed_samples();
    status.lets_in = access_.admission && access_.admission->lets_in();
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
    accounts.samples_dropped += contributions_.forgotten();
    accounts.samples_expired = contributions_.samples_expired();
    accounts.samples_not_finite = not_finite_.all();
    return accounts;
}

void CollaborationImpl::set_caps(double upload_max, double download_max) {
    backend_->set_caps(upload_max, download_max);
    end_back_off();
}

}  // namespace dedloc::collab
