#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "dedloc/base/log.h"
#include "dedloc/collab/collaboration_impl.h"
#include "dedloc/collab/join_string.h"
#include "dedloc/collab/peers_to_dial.h"
#include "dedloc/collab/vector_codecs.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t join_string_peers = 8;
constexpr std::size_t chain_tail = 16;

// Of the peers that have answered a ping; 0: none has.
double middle_round_trip_s(const p2p::Host& host) {
    std::vector<Duration> round_trips;
    for (const PeerId& peer : host.connected_peers())
        if (const auto measured = host.round_trip(peer)) round_trips.push_back(*measured);
    if (round_trips.empty()) return 0;
    const auto middle = round_trips.begin() + static_cast<std::ptrdiff_t>(round_trips.size() / 2);
    std::ranges::nth_element(round_trips, middle);
    return to_seconds(*middle);
}

// Something that this member handed in is in the step.
bool is_in(const consensus::Decision& decision, const consensus::Plan& plan, std::size_t member) {
    return !plan.members[member].input.is_empty() &&
           std::ranges::any_of(decision.parts, [member](const consensus::FinishedPart& part) {
               return part.includes(member);
           });
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

events::PlanMade event_of(const averaging::PlanNote& plan) {
    constexpr std::size_t left_out_told_max = 8;
    events::PlanMade made{.predicted_s = plan.predicted_s, .left_out = plan.left_out.size()};
    if (!plan.bottleneck.empty()) made.bottleneck = plan.bottleneck;
    if (!plan.bottleneck_peer.is_empty()) made.bottleneck_peer = plan.bottleneck_peer.text();
    std::string peers;
    for (std::size_t i = 0; i < std::min(plan.left_out.size(), left_out_told_max); ++i)
        peers += (i == 0 ? "" : " ") + plan.left_out[i].text();
    if (!peers.empty()) made.left_out_peers = std::move(peers);
    return made;
}

events::Any event_of(const averaging::RoundNote& note) {
    using Kind = averaging::RoundNote::Kind;
    switch (note.kind) {
        case Kind::plan_made:
            return note.plan ? event_of(*note.plan) : events::PlanMade{};
        case Kind::repair:
            return events::PartsRepaired{};
        case Kind::refused_input:
            return events::InputRefused{};
        case Kind::refused_message:
            return events::MessageRefused{};
        case Kind::owner_failed:
            return events::OwnerFailed{};
        case Kind::aborted:
            return events::RoundFailed{};
        case Kind::leader_suspected:
            return events::LeaderSuspected{};
        case Kind::branch_opened:
            return events::BranchOpened{};
        case Kind::round_full:
            return events::RoundFull{};
        case Kind::votes_failed:
            return events::VotesFailed{};
        case Kind::votes_failing:
            return events::VotesFailing{};
        case Kind::votes_written:
            return events::VotesWritten{};
    }
    return events::MessageRefused{};
}

void set_codecs(averaging::RoundOptions& round, const Options& options) {
    const std::optional<codec::CodecId> one = options.run.averaging.codec;
    round.codec = one.value_or(codec_of_large_tensors);
    // An aggregator has no layout, and takes any of them.
    round.other_codecs = {codec_of_buffers};
    if (!one) round.other_codecs.push_back(codec_of_small_tensors);
    auto ranges = vector_codecs(options.run.averaging, options.layout);
    if (one && ranges.size() <= 1) return;
    round.codec_ranges = std::move(ranges);
    if (options.layout.buffers_count > 0) round.bounded_count = options.layout.parameters_count;
}

// Of one contribution. A batch, and one that is carried: nobody computes on when the whole batch is
// there. Of each, two micro-batches may have been in the making then (one computed ahead), and a
// machine's own may be larger than the run's.
std::uint64_t samples_max(const BatchConfig& batch) {
    const std::uint64_t in_the_making =
        batch.micro == micro_auto ? batch.target * 2 : batch.micro * 8;
    return batch.target * 2 + in_the_making;
}

averaging::RoundOptions round_options(const Options& options) {
    averaging::RoundOptions round;
    set_codecs(round, options);
    round.vector_count = options.layout.vector_count();
    round.part_elements_max = options.run.averaging.part_elements_max;
    // A share below one whole part is not worth its messages, however small the run's parts are.
    round.part_elements_min = std::min(round.part_elements_min, round.part_elements_max);
    round.samples_max = samples_max(options.run.batch);
    round.norm_max = options.run.averaging.norm_max;
    round.leave_out_slow = options.run.averaging.leave_out_slow;
    round.delayed = options.run.averaging.delayed;
    round.members_max = options.members_max;
    round.group_max = static_cast<std::size_t>(options.run.averaging.group_max);
    round.deadline_min = options.run.averaging.round_deadline_min;
    round.deadline_max = options.run.averaging.round_deadline_max;
    round.quorum_timeout = options.run.averaging.quorum_timeout;
    round.voter_after_contributions = options.run.averaging.voter_after_contributions;
    round.upload_max = options.upload_max;
    round.download_max = options.download_max;
    if (options.role == Role::aggregator) round.reduce_bytes_max = options.reduce_bytes_max;
    round.bugs = options.bugs;
    return round;
}

std::size_t kept_bytes(const Options& options) {
    const averaging::RoundOptions round = round_options(options);
    return kept_averages_bytes(round.vector_count, round.element_bytes(), options.kept_bytes_max);
}

}  // namespace

Result<std::unique_ptr<Collaboration>> Collaboration::make(runtime::Node node,
                                                           p2p::Host& host,
                                                           const security::Signer& signer,
                                                           const security::Verifier& verifier,
                                                           Options options,
                                                           EventSink* events) {
    if (options.bootstrap.empty() && !options.initial && options.role == Role::trainer)
        return make_error(ErrorKind::bad_input, "a host needs a starting state");
    auto made = std::make_unique<CollaborationImpl>(
        node, host, signer, verifier, std::move(options), events);
    DEDLOC_TRY_VOID(made->prepare());
    return std::unique_ptr<Collaboration>(std::move(made));
}

CollaborationImpl::CollaborationImpl(runtime::Node node,
                                     p2p::Host& host,
                                     const security::Signer& signer,
                                     const security::Verifier& verifier,
                                     Options options,
                                     EventSink* events)
    : node_(node),
      host_(host),
      signer_(signer),
      verifier_(verifier),
      options_(std::move(options)),
      events_(events),
      run_hash_(run_hash(options_.run)),
      ledger_(verifier, std::max<std::size_t>(options_.kept_steps, 4), options_.bugs),
      parts_(kept_bytes(options_)),
      store_(node.clock),
      carry_(options_.layout.vector_count(),
             options_.bugs,
             options_.layout.parameters_count,
             samples_max(options_.run.batch)),
      certificate_log_(node),
      changed_(node.executor),
      scope_(node.executor),
      status_sequence_(static_cast<std::uint64_t>(node.clock.wall_now() * 1e3)) {}

CollaborationImpl::~CollaborationImpl() = default;

Result<void> CollaborationImpl::prepare() {
    membership_ = std::make_unique<Membership>(node_,
                                               host_,
                                               signer_,
                                               verifier_,
                                               options_.run,
                                               options_.secret,
                                               options_.status_interval,
                                               options_.peers_max,
                                               membership_callbacks());
    if (options_.role == Role::aggregator) {
        averaging::Environment context{node_,
                                       host_,
                                       signer_,
                                       verifier_,
                                       ledger_,
                                       parts_,
                                       *this,
                                       *this,
                                       round_options(options_)};
        aggregator_ = std::make_unique<averaging::Aggregator>(std::move(context));
    }
    if (options_.role != Role::trainer) return {};
    DEDLOC_TRY(engine_,
               averaging::Coordinator::make({node_,
                                             host_,
                                             signer_,
                                             verifier_,
                                             ledger_,
                                             parts_,
                                             *this,
                                             *this,
                                             round_options(options_)}));
    follower_ = std::make_unique<ChainFollower>(
        *engine_, store_, *membership_, options_.run, options_.layout, follower_callbacks());
    return {};
}

Membership::Callbacks CollaborationImpl::membership_callbacks() {
    Membership::Callbacks callbacks;
    callbacks.own_status = [this] { return status(); };
    callbacks.on_status = [this](const Status& before, const Status& now) {
        on_status(before, now);
    };
    callbacks.on_joined = [this](const Status& peer) {
        emit(events::PeerJoined{}, peer.peer, fmt::format("{} joined", peer.peer.short_text()));
        changed_.pulse();
    };
    callbacks.on_lost = [this](const Status& peer, bool in_order) {
        emit(in_order ? events::Any(events::PeerLeft{}) : events::PeerLost{},
             peer.peer,
             fmt::format("{} {}",
                         peer.name.empty() ? peer.peer.short_text() : peer.name,
                         in_order ? "left" : "is gone without a word"));
        refresh_progress();
        changed_.pulse();
    };
    return callbacks;
}

ChainFollower::Callbacks CollaborationImpl::follower_callbacks() {
    ChainFollower::Callbacks callbacks;
    callbacks.on_applied = [this](const consensus::Decision& decision,
                                  const consensus::Plan& plan,
                                  const optim::StepReport& optimizer) {
        on_applied(decision, plan, optimizer);
    };
    callbacks.on_replaced = [this](const std::string& why) {
        begin_anew();
        emit(events::Resynced{}, {}, "loaded the group's state: " + why);
    };
    callbacks.on_progress = [this](double progress) { download_progress_ = progress; };
    callbacks.note = [this](events::Any what, std::string text) {
        emit(std::move(what), {}, std::move(text));
    };
    return callbacks;
}

// ---- life ---------------------------------------------------------------------------------------

Task<Result<void>> CollaborationImpl::start() {
    membership_->start();
    attachment_server_ =
        std::make_unique<AttachmentServer>(host_, run_hash_, options_.secret, options_.attachments);
    if (options_.role != Role::trainer) {
        DEDLOC_CO_TRY_VOID(co_await start_as_newcomer());
        if (aggregator_) start_aggregator();
        co_return Result<void>();
    }
    certificate_log_.start();
    ledger_.on_decision(
        [this](const consensus::Link& link) { on_decision(link.decision, link.certificate); });
    engine_->start();
    follower_->start();
    state_server_ = std::make_unique<state::StateServer>(
        host_, store_, [this](const PeerId& peer) { return membership_->is_member(peer); });
    Result<void> started;
    if (options_.bootstrap.empty())
        started = co_await start_as_host();
    else
        started = co_await start_as_newcomer();
    if (!started) co_return started;
    step_started_ = node_.clock.now();
    scope_.spawn("watch progress", watch_progress());
    set_phase(Phase::computing);
    begin_computing();
    check_stop_conditions();
    co_return Result<void>();
}

Task<Result<void>> CollaborationImpl::start_as_host() {
    DEDLOC_CO_TRY_VOID(check_state(options_.run, options_.layout, *options_.initial));
    auto published = co_await state::publish(node_.workers, options_.initial);
    store_.put(published);
    const consensus::Voter self = as_voter();
    const auto samples = static_cast<double>(options_.initial->info().samples);
    const Bytes genesis = consensus::make_genesis(
        run_hash_, published->root(), self, signer_, options_.initial->step(), samples);
    DEDLOC_CO_TRY_VOID(follower_->begin(genesis, published->root()));
    engine_->begin_run();
    certificate_log_.add(genesis);
    state_hash_ = published->root();
    take_state(published->snapshot);
    emit(events::RunStarted{}, {}, fmt::format("hosting from step {}", options_.initial->step()));
    co_return Result<void>();
}

Task<Result<void>> CollaborationImpl::start_as_newcomer() {
    set_phase(Phase::starting);
    const TimePoint deadline = node_.clock.now() + options_.join_patience;
    Error last = make_error(ErrorKind::bad_input, "the join string names no address");
    std::optional<Error> other_run;  // what one of them says who trains another by now
    bool met = false;
    while (!met && node_.clock.now() < deadline) {
        for (const std::string& address : peers_to_dial(host_, options_.bootstrap)) {
            const TimePoint until = std::min(deadline, node_.clock.now() + Duration(5s));
            auto peer = co_await membership_->meet(address, until);
            if (peer) {
                met = true;
                break;
            }
            last = std::move(peer).error().with_context(address);
            if (last.kind() == ErrorKind::denied) co_return last;
            if (last.kind() == ErrorKind::conflict) other_run = last;
        }
        if (!met && other_run) co_return *std::move(other_run);
        if (!met) co_await node_.clock.sleep_for(300ms);
    }
    if (!met) co_return last.with_context("nobody of the run could be reached");
    scope_.spawn("meet bootstrap peers", meet_bootstrap());
    if (options_.role != Role::trainer) co_return Result<void>();
    set_phase(Phase::downloading);
    DEDLOC_CO_TRY_VOID(co_await follower_->join(deadline));
    engine_->ledger_moved();
    const auto newest = store_.newest();
    DEDLOC_CHECK(newest != nullptr);
    state_hash_ = newest->root();
    take_state(newest->snapshot);
    emit(events::Joined{}, {}, fmt::format("joined at step {}", newest->snapshot->step()));
    co_return Result<void>();
}

// Meets everybody the join string names, not only the first who answers: that one may be as new as
// we are and know nobody who has the state.
Task<void> CollaborationImpl::meet_bootstrap() {
    Duration pause = 1s;
    for (;;) {
        for (const std::string& address : peers_to_dial(host_, options_.bootstrap)) {
            const auto parts = split_peer_address(address);
            if (parts && (parts->peer == host_.id() || membership_->is_member(parts->peer)))
                continue;
            const TimePoint until = node_.clock.now() + Duration(5s);
            (void)co_await membership_->meet(address, until);
        }
        co_await node_.clock.sleep_for(pause);
        pause = membership_->live().empty() ? 1s : std::min<Duration>(pause * 2, 30s);
    }
}

Task<void> CollaborationImpl::leave(Duration patience) {
    if (options_.role != Role::trainer || stopped_tasks_) {
        leaving_ = true;
        if (aggregator_ && !stopped_tasks_)
            co_await aggregator_->leave(node_.clock.now() + patience);
        set_phase(Phase::leaving);
        co_await membership_->say_goodbye();
        co_await stop();
        co_return;
    }
    leave_deadline_ = node_.clock.now() + patience;
    leaving_ = true;
    engine_->set_leaving(true);
    changed_.pulse();
    // The trainer hands in what it has; a run that is over waits for those who still apply its end.
    while (node_.clock.now() < leave_deadline_) {
        bool waited_for = !over_ && (in_step_ || samples_ > 0 || trainer_runs_);
        if (over_)
            for (const KnownPeer* peer : membership_->live())
                if (peer->status.role == Role::trainer && peer->status.phase != Phase::leaving &&
                    peer->status.step < ledger_.base().instance.step)
                    waited_for = true;
        if (!waited_for) break;
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 50ms);
    }
    tell_of_forgotten();
    if (!over_) drop(samples_ + samples_ahead_, "the collaboration was left before a step was due");
    set_phase(Phase::leaving);
    co_await membership_->say_goodbye();
    emit(events::Left{}, {}, "left the collaboration");
    co_await stop();
}

Task<void> CollaborationImpl::stop() {
    if (stopped_tasks_) co_return;
    stopped_tasks_ = true;
    over_ = true;
    changed_.pulse();
    co_await scope_.stop();
    if (engine_) co_await engine_->stop();
    if (follower_) co_await follower_->stop();
    if (aggregator_) co_await aggregator_->stop();
    state_server_.reset();
    attachment_server_.reset();
    co_await membership_->stop();
    if (engine_) co_await certificate_log_.stop();
}

// ---- what happens -------------------------------------------------------------------------------

// The chain is another one now; what was computed for the old one belongs nowhere.
void CollaborationImpl::begin_anew() {
    ++accounts_.branches;
    carry_.forget();
    handed_in_.reset();
    in_commit_since_ = {};
    replaced_ = true;
    step_started_ = node_.clock.now();
    round_times_.reset();
    engine_->ledger_moved();
    if (const auto newest = store_.newest()) {
        state_hash_ = newest->root();
        take_state(newest->snapshot);
    }
}

consensus::Voter CollaborationImpl::as_voter() const {
    return {host_.id(), engine_->incarnation(), !host_.addresses().empty()};
}

void CollaborationImpl::part_from_lost_state() {
    const std::uint64_t step = ledger_.base().instance.step;
    const consensus::Voter self = as_voter();
    const auto branch = follower_->part_from_lost(self);
    if (!branch) return;
    certificate_log_.add(*branch);
    begin_anew();
    emit(events::BranchOpened{},
         {},
         fmt::format("nobody has the state of step {} any more: we go on from step {} as a new "
                     "branch",
                     step,
                     ledger_.base().instance.step));
}

void CollaborationImpl::emit(events::Any what, PeerId peer, std::string text) {
    if (events_ == nullptr) return;
    Event event;
    event.time = node_.clock.wall_now();
    event.peer = std::move(peer);
    event.step = ledger_.started() ? ledger_.base().instance.step : 0;
    event.text = std::move(text);
    event.what = std::move(what);
    events_->record(event);
}

// An aggregator stands where its certificates say: there is nothing to apply.
void CollaborationImpl::start_aggregator() {
    ledger_.on_decision(
        [this](const consensus::Link& link) { on_decision_assisted(link.decision); });
    aggregator_->start();
    set_phase(Phase::waiting);
    emit(events::Joined{}, {}, "offering to reduce parts");
}

void CollaborationImpl::on_decision_assisted(const consensus::Decision& decision) {
    ++accounts_.certificates;
    membership_->push_now();
    check_stop_conditions();
    const auto plan = decision.kind == consensus::DecisionKind::commit
                          ? wire::decode<consensus::Plan>(decision.plan)
                          : Result<consensus::Plan>(consensus::Plan{});
    if (!plan) return;
    std::size_t owned = 0;
    std::uint64_t elements = 0;
    for (std::size_t i = 0; i < decision.parts.size() && i < plan->parts.size(); ++i) {
        const std::uint32_t owner = decision.parts[i].owner;
        if (owner >= plan->members.size() || plan->members[owner].peer != host_.id()) continue;
        ++owned;
        elements += plan->parts[i].count;
    }
    if (owned == 0) return;
    const double share =
        static_cast<double>(elements) / static_cast<double>(consensus::vector_count(*plan));
    const auto work = aggregator_->work();
    emit(events::PartsReduced{.step = decision.instance.step + 1,
                              .parts = owned,
                              .share = share,
                              .memory_bytes_most = work.memory_most},
         {},
         fmt::format("step {}: reduced {} of {} parts, {:.0f} % of the vector",
                     decision.instance.step + 1,
                     owned,
                     decision.parts.size(),
                     share * 100));
}

// Whoever has steps that we know no certificate of, or more samples on another branch, is asked.
void CollaborationImpl::follow_if_ahead(const Status& status) {
    if (!ledger_.started() || status.role != Role::trainer || status.branch.is_zero()) return;
    const consensus::Base& base = ledger_.base();
    const bool elsewhere = status.branch != base.instance.branch;
    if (is_ahead(status, base) || (elsewhere && status.branch_samples >= base.branch_samples))
        aggregator_->look_at(status.peer);
}

void CollaborationImpl::on_status(const Status& before, const Status& now) {
    if (aggregator_) {
        follow_if_ahead(now);
        check_stop_conditions();
    }
    if (options_.role != Role::trainer || !ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    const bool same = now.certificate == base.previous;
    const bool elsewhere = now.branch != base.instance.branch && !now.branch.is_zero();
    if (!same && (is_ahead(now, base) || elsewhere) && now.role == Role::trainer &&
        now.phase != Phase::downloading)
        follower_->look_at(now.peer);
    const bool told = before.certificate == now.certificate && before.state_hash == now.state_hash;
    if (same && base.state && now.state_hash != *base.state && !now.state_hash.is_zero() && !told)
        emit(events::StateDiffers{},
             now.peer,
             fmt::format("{} has another state at step {}", now.name, now.step));
    // Whoever averages for the step we stand on has seen the batch full: join at once.
    if (same && now.phase == Phase::averaging && now.samples > 0) round_wanted();
    if (before.accuracy_step != now.accuracy_step) check_stop_conditions();
    refresh_progress();
}

void CollaborationImpl::on_decision(const consensus::Decision& decision, const Bytes& certificate) {
    ++accounts_.certificates;
    decided_at_ = node_.clock.now();
    certificate_log_.add(certificate);
    if (decision.kind == consensus::DecisionKind::branch) {
        ++accounts_.branches;
        emit(events::NewBranch{},
             {},
             fmt::format("{} peers go on as a new branch", decision.next_voters.size()));
        return;
    }
    if (decision.kind != consensus::DecisionKind::commit) return;
    const auto plan = wire::decode<consensus::Plan>(decision.plan);
    if (!plan) return;
    std::optional<std::size_t> mine;
    for (std::size_t i = 0; i < plan->members.size(); ++i)
        if (plan->members[i].peer == host_.id() && handed_in_ &&
            plan->members[i].input == *handed_in_)
            mine = i;
    if (mine && !decision.parts.empty() && decision.parts[0].includes(*mine))
        committed_samples_ += handed_in_->fresh.size();
    if (mine && handed_in_->fresh.size() > 0 && is_in(decision, *plan, *mine)) {
        contributed_to_ = decision.instance;
        contributed_loss_ = handed_in_loss_;
    }
    note_times(decision);
    tell_rest(fate_of(*plan, decision, mine), plan->leader);
    std::shift_right(in_commit_since_.begin(), in_commit_since_.end(), 1);
    in_commit_since_[0].reset();
    if (mine && !handed_in_->is_empty()) in_commit_since_[0] = handed_in_at_;
    carry_.committed(*plan, decision, mine);
    handed_in_.reset();
}

// The slower way, bytes per second.
double CollaborationImpl::line() const {
    return std::min(engine_->link().upload_bytes_per_s(), engine_->link().download_bytes_per_s());
}

void CollaborationImpl::end_rest() {
    if (!resting_) return;
    rest_.end();
    resting_ = false;
    engine_->link().set_left_out(false);
    // It computes the next step's samples already, if it keeps some of this one.
    if (phase_ == Phase::waiting && ahead_ == Ahead::yes && !in_step_) set_phase(Phase::computing);
    changed_.pulse();
}

// What became of our contribution, which is number `mine` of the plan.
Rest::Fate CollaborationImpl::fate_of(const consensus::Plan& plan,
                                      const consensus::Decision& decision,
                                      std::optional<std::size_t> mine) const {
    using Fate = Rest::Fate;
    if (!handed_in_ || handed_in_->is_empty()) return Fate::missing;
    if (!mine) return plan.leaves_out(host_.id()) ? Fate::left_out : Fate::missing;
    return consensus::has_reached_others(plan, decision, *mine).value_or(true) ? Fate::taken
                                                                               : Fate::late;
}

// Who computes what does not enter the model computes for nothing.
void CollaborationImpl::tell_rest(Rest::Fate fate, const PeerId& leader) {
    if (!options_.run.averaging.leave_out_slow) return;
    const bool begins = rest_.step_made(fate, leader);
    if (resting_ != rest_.resting()) engine_->link().set_left_out(rest_.resting());
    resting_ = rest_.resting();
    if (!begins) return;
    line_at_rest_ = line();
    const auto megabit = [](double bytes_per_s) { return bytes_per_s * 8 / 1e6; };
    emit(events::LeftOut{.steps = rest_.steps_left()},
         {},
         fmt::format("{} ({:.3g} Mb/s up, {:.3g} Mb/s down). We follow the run and try again in {} "
                     "steps; a faster line or a higher cap ends this at once",
                     rest_.was_late()
                         ? "nothing of what we contribute reaches the others in time over our line"
                         : "rounds do without us: every step would take much longer than our "
                           "samples are worth with our line",
                     megabit(engine_->link().upload_bytes_per_s()),
                     megabit(engine_->link().download_bytes_per_s()),
                     rest_.steps_left()));
}

// While what we handed in is not forgotten.
void CollaborationImpl::note_times(const consensus::Decision& commit) {
    const auto planned = engine_->planned_at(commit);
    if (!planned) return;
    std::optional<TimePoint> handed_in;
    if (handed_in_ && handed_in_->fresh.size() > 0) handed_in = handed_in_at_;
    round_times_ = RoundTimes{commit.instance, handed_in, *planned, decided_at_};
}

// Where the time of a step went; together all of it. Nothing where its plan did not come to us, as
// when we catch up.
std::optional<events::StepMade::Times> CollaborationImpl::times_of(
    const consensus::Decision& commit, TimePoint applied) const {
    if (!round_times_ || round_times_->step != commit.instance) return std::nullopt;
    const TimePoint planned = std::max(round_times_->planned, step_started_);
    const TimePoint decided = std::max(round_times_->decided, planned);
    // A plan that counts on what we said before may come while we still compute.
    const TimePoint handed_in =
        std::clamp(round_times_->handed_in.value_or(step_started_), step_started_, planned);
    return events::StepMade::Times{.computing_s = to_seconds(handed_in - step_started_),
                                   .waiting_s = to_seconds(planned - handed_in),
                                   .averaging_s = to_seconds(decided - planned),
                                   .applying_s = to_seconds(applied - decided)};
}

void CollaborationImpl::on_applied(const consensus::Decision& decision,
                                   const consensus::Plan& plan,
                                   const optim::StepReport& optimizer) {
    const auto newest = store_.newest();
    state_hash_ = newest->root();
    take_state(newest->snapshot);
    const double samples =
        consensus::committed_samples(plan, decision.parts, options_.layout.vector_count());
    const std::uint64_t step = decision.instance.step + 1;
    const auto members = static_cast<std::uint64_t>(
        std::ranges::count_if(plan.members, [](const auto& member) { return !member.aggregator; }));
    std::uint64_t contributors = 0;
    for (std::size_t i = 0; i < plan.members.size(); ++i)
        if (is_in(decision, plan, i)) ++contributors;
    // Who slept applies many steps in a row: what it last handed in is in none of them.
    const double loss = contributed_to_ == decision.instance
                            ? contributed_loss_
                            : std::numeric_limits<double>::quiet_NaN();
    const TimePoint now = node_.clock.now();
    events::StepMade made{.step = step,
                          .samples = samples,
                          .samples_total = decision.branch_samples,
                          .members = members,
                          .contributors = contributors,
                          .left_out = plan.left_out.size(),
                          .attempt = decision.instance.attempt,
                          .loss = loss,
                          .learning_rate = optimizer.learning_rate,
                          .seconds = to_seconds(now - step_started_),
                          .predicted_s = plan.predicted_ms / 1e3,
                          .state_hash = state_hash_};
    if (const auto times = times_of(decision, now)) made.set_times(*times);
    if (options_.run.optimizer.gradient_norm_max > 0)  // else nobody measures it
        made.gradient_norm = optimizer.gradient_norm;
    emit(std::move(made),
         {},
         fmt::format("step {}: {} samples of {} peer{}",
                     step,
                     number(samples),
                     contributors,
                     contributors == 1 ? "" : "s"));
    step_started_ = now;
    check_stop_conditions();
    membership_->push_now();
}

void CollaborationImpl::take_state(std::shared_ptr<const state::Snapshot> state) {
    {
        const std::lock_guard lock(state_mutex_);
        state_ = std::move(state);
    }
    // The trainer sees that its state is old at its next look.
    if (!in_step_ && trainer_at_.step != 0 && !trainer_is_current()) step_due_ = true;
    changed_.pulse();
}

void CollaborationImpl::check_stop_conditions() {
    const auto current = state();
    if (over_ || (!current && !(aggregator_ && ledger_.started()))) return;
    const std::uint64_t step = current ? current->step() : ledger_.base().instance.step;
    const double samples = current ? static_cast<double>(current->info().samples)
                                   : std::floor(ledger_.base().branch_samples);
    const StopConfig& stop = options_.run.stop;
    double accuracy = evaluation_step_ > 0 ? evaluation_.accuracy : 0;
    for (const KnownPeer* peer : membership_->live())
        accuracy = std::max(accuracy, peer->status.accuracy);
    if (!stop.is_met(step, samples, accuracy)) return;
    over_ = true;
    emit(events::RunOver{}, {}, fmt::format("the stop condition is met at step {}", step));
    changed_.pulse();
}

void CollaborationImpl::report_evaluation(std::uint64_t step, const Evaluation& evaluation) {
    evaluation_ = evaluation;
    evaluation_step_ = step;
    emit(events::Evaluated{.step = step, .accuracy = evaluation.accuracy, .loss = evaluation.loss},
         {},
         fmt::format("step {}: accuracy {:.2f} %", step, evaluation.accuracy * 100));
    check_stop_conditions();
    membership_->push_now();
}

// ---- what others see ----------------------------------------------------------------------------

void CollaborationImpl::set_phase(Phase phase) {
    if (phase_ == phase) return;
    phase_ = phase;
    membership_->push_now();
}

Status CollaborationImpl::status() const {
    Status status;
    status.peer = host_.id();
    status.incarnation = engine_ ? engine_->incarnation() : 1;
    status.sequence = ++status_sequence_;
    status.role = options_.role;
    status.phase = phase_;
    if (ledger_.started()) {
        const consensus::Base& base = ledger_.base();
        status.branch = base.instance.branch;
        // What is certified but not applied yet does not count: we do not stand there.
        const auto current = state();
        status.step = current ? current->step() : 0;
        if (aggregator_) status.step = base.instance.step;
        // Certificates after a commit tell its state before we have computed it.
        const bool stands = base.state && *base.state == state_hash_;
        if (stands || aggregator_) status.certificate = base.previous;
        status.branch_samples = base.branch_samples;
        status.state_hash = state_hash_;
    }
    // Who has the new state already, and has not begun to compute at it, has nothing for the new
    // step but what it computed ahead.
    if (resting_)
        status.samples = 0;  // nobody shall count on them
    else if (trainer_is_current())
        status.samples = samples_;
    else if (ahead_ == Ahead::yes)
        status.samples = samples_ahead_;
    status.samples_per_s = samples_per_s_;
    status.micro_batch_s = micro_batch_s_;
    if (engine_) {
        status.upload_bytes_per_s = engine_->link().upload_bytes_per_s();
        status.download_bytes_per_s = engine_->link().download_bytes_per_s();
    } else if (aggregator_) {
        status.upload_bytes_per_s = aggregator_->upload_bytes_per_s();
        status.download_bytes_per_s = aggregator_->download_bytes_per_s();
        if (phase_ == Phase::waiting && aggregator_->busy()) status.phase = Phase::averaging;
    }
    status.round_trip_s = middle_round_trip_s(host_);
    status.loss = samples_ > 0 ? loss_sum_ / static_cast<double>(samples_) : handed_in_loss_;
    status.accuracy = evaluation_step_ > 0 ? evaluation_.accuracy : 0;
    status.accuracy_step = evaluation_step_;
    status.progress = download_progress_;
    status.committed_samples = committed_samples_;
    status.addresses = host_.addresses();
    if (status.addresses.size() > status_addresses_max)
        status.addresses.resize(status_addresses_max);
    status.dialable = !status.addresses.empty();
    status.name = options_.name.substr(0, 32);
    status.version = "0.1.0";
    return status;
}

std::vector<Status> CollaborationImpl::peers() const {
    std::vector<Status> statuses{status()};
    for (const KnownPeer* peer : membership_->live()) statuses.push_back(peer->status);
    std::sort(statuses.begin(), statuses.end(), [](const Status& a, const Status& b) {
        return a.peer < b.peer;
    });
    return statuses;
}

Digest CollaborationImpl::branch() const { return ledger_.base().instance.branch; }

std::string CollaborationImpl::join_string() const {
    JoinString join;
    join.run = run_hash_;
    join.secret = options_.secret;
    join.addresses = membership_->known_addresses(join_string_peers);
    if (ledger_.started())
        join.anchor = Anchor{ledger_.base().previous, ledger_.base().instance.step};
    return to_text(join);
}

Collaboration::Accounts CollaborationImpl::accounts() const {
    Accounts accounts = accounts_;
    accounts.samples_dropped += forgotten_;
    accounts.samples_expired = carry_.samples_expired();
    accounts.samples_not_finite = samples_not_finite_;
    return accounts;
}

void CollaborationImpl::set_caps(double upload_max, double download_max) {
    if (aggregator_) aggregator_->set_caps(upload_max, download_max);
    if (engine_) engine_->link().set_caps(upload_max, download_max);
    end_rest();
}

averaging::AggregatorWork CollaborationImpl::assistance() const {
    return aggregator_ ? aggregator_->work() : averaging::AggregatorWork{};
}

Bytes CollaborationImpl::chain() const {
    consensus::CertificatesReply tail;
    if (ledger_.started()) tail.certificates = ledger_.tail(chain_tail);
    return wire::encode(tail);
}

// ---- averaging::Roster and RoundListener --------------------------------------------------------

// By step rather than by certificate: who has not heard of an aborted attempt or a new branch yet
// will in a moment.
bool CollaborationImpl::stands_on(const Status& status, const consensus::Base& base) const {
    return (status.branch == base.instance.branch && status.step == base.instance.step &&
            !status.certificate.is_zero()) ||
           (base.is_voter(status.peer) && status.step == base.instance.step);
}

// One that is a step behind and speaks is making this step as well, over a slower line. If it were
// not waited for, it would come too late to every round that follows.
bool CollaborationImpl::arrives_at(const KnownPeer& peer, const consensus::Base& base) const {
    return peer.status.branch == base.instance.branch &&
           peer.status.step + 1 == base.instance.step && peer.received > decided_at_;
}

std::vector<PeerId> CollaborationImpl::expected(const consensus::Base& base) const {
    std::vector<PeerId> expected;
    for (const KnownPeer* peer : membership_->live()) {
        const Status& status = peer->status;
        if (status.is_training() && (stands_on(status, base) || arrives_at(*peer, base)))
            expected.push_back(status.peer);
    }
    return expected;
}

std::vector<PeerId> CollaborationImpl::live_trainers() const {
    std::vector<PeerId> trainers;
    for (const KnownPeer* peer : membership_->live())
        if (peer->status.role == Role::trainer) trainers.push_back(peer->status.peer);
    return trainers;
}

std::vector<PeerId> CollaborationImpl::newcomers() const {
    const consensus::Instance& open = ledger_.base().instance;
    std::vector<PeerId> newcomers;
    for (const KnownPeer* peer : membership_->live()) {
        const Status& status = peer->status;
        const bool lags = status.branch == open.branch && status.step + 1 < open.step;
        if (status.role == Role::trainer && (status.is_newcomer() || lags))
            newcomers.push_back(status.peer);
    }
    return newcomers;
}

std::size_t CollaborationImpl::count_voters(
    const consensus::Base& base, const std::function<bool(const Status&)>& counts) const {
    std::size_t count = base.voter_incarnation(host_.id()) == engine_->incarnation() ? 1 : 0;
    for (const KnownPeer* peer : membership_->live())
        if (peer->status.role == Role::trainer &&
            base.voter_incarnation(peer->status.peer) == peer->status.incarnation &&
            counts(peer->status))
            ++count;
    return count;
}

std::size_t CollaborationImpl::voters_heard_of(const consensus::Base& base) const {
    return count_voters(base, [](const Status&) { return true; });
}

bool CollaborationImpl::chain_goes_on(const consensus::Base& base) const {
    return std::ranges::any_of(membership_->live(), [&base](const KnownPeer* peer) {
        return is_ahead(peer->status, base);
    });
}

std::size_t CollaborationImpl::voters_of_our_branch(const consensus::Base& base) const {
    return count_voters(
        base, [&base](const Status& status) { return status.branch == base.instance.branch; });
}

bool CollaborationImpl::allowed(const PeerId& peer) const { return membership_->is_member(peer); }

double CollaborationImpl::micro_batch_s() const {
    double longest = micro_batch_s_;
    for (const KnownPeer* peer : membership_->live())
        longest = std::max(longest, peer->status.micro_batch_s);
    return longest;
}

double CollaborationImpl::upload_bytes_per_s(const PeerId& peer) const {
    const KnownPeer* const known = membership_->find(peer);
    return known == nullptr ? 0 : known->status.upload_bytes_per_s;
}

void CollaborationImpl::round_wanted() {
    if (!step_due_.exchange(true)) changed_.pulse();
}

void CollaborationImpl::behind(const PeerId& peer) {
    if (follower_) follower_->look_at(peer);
    if (aggregator_) aggregator_->look_at(peer);
}

void CollaborationImpl::voting_for(const consensus::Decision& decision) {
    follower_->expect(decision);
}

void CollaborationImpl::note(const averaging::RoundNote& note) {
    emit(event_of(note), note.peer, note.text);
}

}  // namespace dedloc::collab
