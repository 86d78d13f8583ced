#include "dedloc/collab/trainer_steps.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "dedloc/collab/member_roster.h"
#include "dedloc/collab/round_options.h"

namespace dedloc::collab {
namespace {

constexpr std::string_view left_early = "the collaboration was left before a step was due";
constexpr Duration last_step_timeout = 60s;  // of a leaver, until a step is due
constexpr Duration news_of_step_time = 1s;   // for news of a step that others made without us
constexpr Duration poll_interval = 50ms;
constexpr Duration state_look_interval = 20ms;

// To the bit. A step whose vote had to be written again was computed again.
bool are_same(const state::Snapshot& one, const state::Snapshot& other) {
    if (&one == &other) return true;
    const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    const auto same = [bits](const state::Section& a, const state::Section& b) {
        return a.name == b.name && a.codes == b.codes &&
               std::ranges::equal(a.values, b.values, {}, bits, bits);
    };
    return one.info() == other.info() && std::ranges::equal(one.sections(), other.sections(), same);
}

}  // namespace

Computed::Computed(const CollaborationOptions& options, const Planted& planted)
    : progress(options.run.batch.target, options.status_interval, options.run.batch.micro),
      contributions(replica::DeferredGradients(options.layout.vector_count(),
                                               planted.bugs,
                                               options.layout.parameters_count,
                                               samples_max(options.run))),
      claims(options.run.batch,
             options.run.averaging.delayed,
             // Strict credit also disbelieves the newcomers of a small run, for minutes.
             /*of_strangers=*/false,
             options.run.fragments()),
      keeps_stale(planted.bugs.stale_overlap) {
    if (options.run.averaging.is_sparse())
        contributions.send_sparsely(*options.run.averaging.codec, planted.on_frozen);
}

TrainerSteps::TrainerSteps(const Shared& shared, Computed& computed)
    : shared_(shared),
      ending_(shared.ending),
      clock_(shared.node.clock),
      contributions_(computed.contributions),
      progress_(computed.progress),
      claims_(computed.claims),
      slow_link_(shared.options, shared.membership, shared.backend, shared.teller),
      keeps_stale_(computed.keeps_stale) {}

// ---- what the trainer computes ------------------------------------------------------------------

bool TrainerSteps::check_waits() const {
    const validation::GradientValidators* const checks = shared_.backend.checks();
    return checks != nullptr && checks->work_waits();
}

bool TrainerSteps::rests() const {
    const validation::GradientValidators* const checks = shared_.backend.checks();
    return paused_ || slow_link_.is_on() || (checks != nullptr && checks->holds_back());
}

void TrainerSteps::report(std::uint64_t samples, double loss_sum, double seconds) {
    const bool for_open_step = contributions_.add(samples, loss_sum);
    progress_.report_speed(samples, seconds);
    if (for_open_step && batch_is_full()) due_ = true;
}

bool TrainerSteps::may_compute_ahead() const {
    if (!contributions_.computes_ahead() || ending_.stopped() || paused_ || slow_link_.is_on())
        return false;
    return static_cast<double>(contributions_.samples_ahead()) < progress_.own_share();
}

bool TrainerSteps::batch_is_full() const {
    return progress_.is_full(contributions_.samples(), clock_.now());
}

void TrainerSteps::refresh_progress() {
    if (!shared_.trains() || !shared_.backend.started()) return;
    const TimePoint now = clock_.now();
    std::vector<membership::BatchProgress::Other> others;
    for (const membership::KnownPeer* peer : shared_.membership.live()) {
        if (peer->status.role != membership::Role::trainer) continue;
        if (!claims_.promises().are_believed(peer->contributed, now)) continue;
        const bool works_here = works_on_step(peer->status, *shared_.backend.base());
        // Rounds wait for peers that work on the step, and for the time of a micro-batch, of
        // whichever step it is.
        if (!peer->contributed && (works_here || peer->status.micro_batch_s > 0))
            claims_.promises().made_by(peer->status.peer);
        others.push_back({.peer = peer,
                          .works_on_open_step = works_here,
                          .believed_most = claims_.computed_most(*peer, /*carried=*/false, now)});
    }
    progress_.refresh(others, now);
    const bool takes_part = contributions_.samples() > 0 || slow_link_.is_on() || paused_;
    if (batch_is_full() && takes_part && !due_) {
        due_ = true;
        shared_.changed.pulse();
    }
    if (due_ && trainer_is_current()) shared_.backend.want_round();
}

bool TrainerSteps::trainer_is_current() const {
    const auto current = state();
    return current && current->step() == computes_at_.step.step &&
           current->info().branch == computes_at_.step.branch && !computes_at_.state_is_replaced;
}

void TrainerSteps::begin_computing(bool keep_ahead) {
    const auto current = state();
    computes_at_.step.step = current->step();
    computes_at_.step.branch = current->info().branch;
    computes_at_.state_is_replaced = false;
    contributions_.begin_step(keep_ahead);
    due_ = false;
    // A leaver that computed ahead still has something to hand in.
    if (shared_.publisher.phase() != membership::Phase::leaving &&
        (!ending_.leaving || contributions_.samples() > 0))
        shared_.set_phase(rests() ? membership::Phase::waiting : membership::Phase::computing);
    refresh_progress();
}

// Asked for a step that we took part in. A gradient computed ahead is worth something one step
// later only; a leaver hands it in.
StepKind TrainerSteps::how_it_ended() const {
    const bool ahead = contributions_.computes_ahead();
    if (ending_.over || (ending_.leaving && !ahead)) return StepKind::stopped;
    const bool too_far = ahead && state()->step() > computes_at_.step.step + 1;
    const bool otherwise = expected_ && !are_same(*state(), *expected_);
    const bool elsewhere = computes_at_.state_is_replaced || too_far || otherwise;
    return elsewhere && !keeps_stale_ ? StepKind::resynced : StepKind::stepped;
}

StepOutcome TrainerSteps::outcome(StepKind kind) {
    StepOutcome outcome;
    outcome.kind = kind;
    outcome.state = state();
    begin_computing(/*keep_ahead=*/kind == StepKind::stepped);
    return outcome;
}

void TrainerSteps::tell_of_forgotten() {
    drop(contributions_.take_forgotten(), "they belong to a step that was not made here");
}

void TrainerSteps::drop(std::uint64_t samples, std::string_view why) {
    if (samples == 0) return;
    samples_dropped_ += samples;
    shared_.teller.tell(events::SamplesDropped{.samples = samples},
                        {},
                        fmt::format("{} samples are dropped: {}", samples, why));
}

Task<void> TrainerSteps::wait_for_state() {
    while (!ending_.tasks_stopped && !shared_.backend.has_open_state())
        (void)co_await shared_.changed.wait_until(clock_, clock_.now() + state_look_interval);
}

bool TrainerSteps::is_any_other(const std::function<bool(const membership::Status&)>& is) const {
    return std::ranges::any_of(shared_.membership.live(),
                               [&](const membership::KnownPeer* peer) { return is(peer->status); });
}

// Others extrapolate what a leaver computes, so that they may find a batch full that it does not;
// then they wait for its samples. (They may have made the step without it, too: see
// news_of_step_time.)
bool TrainerSteps::another_hands_in() const {
    return is_any_other([this](const membership::Status& status) {
        return status.phase == membership::Phase::averaging &&
               works_on_step(status, *shared_.backend.base());
    });
}

// A leaver does not cut the others' batch short: it waits until the step is due, for a while. The
// others may make a step meanwhile; before that is applied nobody can tell that ours is late.
Task<bool> TrainerSteps::wait_to_hand_in_last() {
    const TimePoint latest = clock_.now() + last_step_timeout;
    std::optional<TimePoint> waited_for_since;
    while (!ending_.over && clock_.now() < std::min(ending_.leave_by, latest)) {
        if (!another_hands_in())
            waited_for_since.reset();
        else if (!waited_for_since)
            waited_for_since = clock_.now();
        const bool waited_for =
            waited_for_since && clock_.now() >= *waited_for_since + news_of_step_time;
        if (shared_.backend.has_open_state() &&
            (batch_is_full() || waited_for || !trainer_is_current()))
            co_return true;
        const auto is_trainer = [](const membership::Status& status) {
            return status.role == membership::Role::trainer;
        };
        if (!is_any_other(is_trainer)) co_return false;
        (void)co_await shared_.changed.wait_until(clock_, clock_.now() + poll_interval);
    }
    co_return false;
}

// A peer that still has samples keeps them until then; when it backs off no more, and has computed
// its share of the step after this one, nobody else may be left to make this one due. False: the
// back-off is over before.
Task<bool> TrainerSteps::back_off_until_due(bool has_samples) {
    const auto has_done_all = [this] {
        return !rests() && contributions_.computes_ahead() && !may_compute_ahead();
    };
    while ((rests() || has_samples) && !is_due() && !has_done_all() && !ending_.tasks_stopped &&
           !check_waits())
        (void)co_await shared_.changed.wait_until(clock_, clock_.now() + poll_interval);
    co_return is_due() || has_samples || ending_.tasks_stopped;
}

// A new branch begins with the step that was open: what was handed in for it is worth as much
// there.
bool TrainerSteps::is_still_to_be_averaged(const allreduce::RoundInput& input) const {
    const bool patient = !ending_.leaving || clock_.now() < ending_.leave_by;
    return !input.input.is_empty() && contributions_.handed_in() && trainer_is_current() &&
           patient && !ending_.over && !ending_.tasks_stopped;
}

// Handed in again it would be refused again, and no step would ever be made.
void TrainerSteps::forget_refused() {
    if (contributions_.has_unsent())
        shared_.teller.tell(events::UnsentLost{},
                            {},
                            "what this peer had not sent yet was refused with its contribution");
    drop(contributions_.forget_refused(),
         "their mean is not finite, or beyond the run's averaging.norm_max");
}

// The trainer computes for a step that moves this.
consensus::ElementRange TrainerSteps::open_range() const {
    return consensus::fragment_of(shared_.options.layout.vector_count(),
                                  shared_.options.run.fragments(),
                                  computes_at_.step.step);
}

std::uint64_t TrainerSteps::samples_of(const Contribution& contribution) const {
    return consensus::samples_on(
        contribution.moved, contribution.samples.size(), shared_.options.layout.vector_count());
}

// The step that it was computed for is made already.
StepOutcome TrainerSteps::too_late(Contribution contribution) {
    const auto current = state();
    const bool one_late = !computes_at_.state_is_replaced &&
                          current->info().branch == computes_at_.step.branch &&
                          current->step() == computes_at_.step.step + 1;
    if (one_late)
        contributions_.hand_in_late(
            contribution.samples, std::move(contribution.sum), contribution.moved);
    else
        drop(samples_of(contribution), "they were computed at a state that is too old");
    return outcome(one_late ? StepKind::stepped : StepKind::resynced);
}

Task<Result<StepOutcome>> TrainerSteps::step(Contribution contribution) {
    const bool has_samples = contribution.samples.size() > 0;
    if (rests() && !co_await back_off_until_due(has_samples)) co_return outcome(StepKind::stepped);
    co_await wait_for_state();
    if (!ending_.kept_out.empty()) co_return make_error(ErrorKind::denied, "{}", ending_.kept_out);
    if (ending_.over || ending_.tasks_stopped) {
        drop(samples_of(contribution), "the run is over");
        co_return outcome(StepKind::stopped);
    }
    if (ending_.leaving && !co_await wait_to_hand_in_last()) {
        // Nothing is left of them where drop_rest() came first.
        drop(std::min(samples_of(contribution), contributions_.samples()), left_early);
        co_return outcome(StepKind::stopped);
    }
    const bool fits = contribution.moved.count == 0 || contribution.moved == open_range();
    if (!trainer_is_current() || !fits) co_return too_late(std::move(contribution));
    const auto input = contributions_.hand_in(contribution.samples,
                                              std::move(contribution.sum),
                                              contribution.loss_sum,
                                              clock_.now(),
                                              open_range());
    computes_at_.is_in_step = true;
    on_expected_ = std::move(contribution.on_expected);
    expected_ = nullptr;
    if (ending_.leaving)
        shared_.set_phase(membership::Phase::leaving);
    else if (!rests())
        shared_.set_phase(membership::Phase::averaging);
    do {
        co_await shared_.backend.average(input);
        co_await wait_for_state();
    } while (is_still_to_be_averaged(*input) && !shared_.backend.own_refused());
    if (!ending_.kept_out.empty()) co_return make_error(ErrorKind::denied, "{}", ending_.kept_out);
    const bool refused = shared_.backend.own_refused() && is_still_to_be_averaged(*input);
    if (refused) forget_refused();
    computes_at_.is_in_step = false;
    shared_.changed.pulse();
    StepOutcome decided = outcome(how_it_ended());
    decided.refused = refused;
    on_expected_ = nullptr;
    expected_ = nullptr;
    co_return decided;
}

// ---- what happens -------------------------------------------------------------------------------

void TrainerSteps::state_is(std::shared_ptr<const state::Snapshot> state) {
    state_.set(std::move(state));
    // The trainer sees that its state is old at its next look.
    if (!computes_at_.is_in_step && computes_at_.step.step != 0 && !trainer_is_current())
        due_ = true;
    shared_.changed.pulse();
}

// A run that ends with this step needs no more gradients, and a leaver brings no more.
void TrainerSteps::state_expected(std::shared_ptr<const state::Snapshot> state) {
    if (!on_expected_ || !computes_at_.is_in_step || ending_.stopped()) return;
    const auto samples = static_cast<double>(state->info().samples);
    const double accuracy = shared_.publisher.accuracy();
    if (shared_.options.run.stop.is_met(state->step(), samples, accuracy)) return;
    contributions_.compute_ahead();
    expected_ = state;
    std::exchange(on_expected_, nullptr)(std::move(state));
}

void TrainerSteps::make_due() {
    if (!due_.exchange(true)) shared_.changed.pulse();
}

void TrainerSteps::poll() {
    check_pause();
    refresh_progress();
    if (slow_link_.is_to_end()) end_back_off();
    tell_of_not_finite();
    tell_of_forgotten();
}

// Other peers are told at once: they plan without what this peer would have computed.
void TrainerSteps::check_pause() {
    const bool paused = paused_;
    if (paused == was_paused_ || !state()) return;
    was_paused_ = paused;
    const membership::Phase phase = shared_.publisher.phase();
    if (paused && phase == membership::Phase::computing)
        shared_.set_phase(membership::Phase::waiting);
    if (!rests() && phase == membership::Phase::waiting && !computes_at_.is_in_step)
        shared_.set_phase(membership::Phase::computing);
    shared_.changed.pulse();
}

void TrainerSteps::tell_of_not_finite() {
    const std::uint64_t fresh = not_finite_.to_tell(clock_.now());
    if (fresh == 0) return;
    const bool has_experts = shared_.options.run.task.section("experts") != nullptr;
    shared_.teller.tell(
        events::NotFinite{.samples = fresh},
        {},
        fmt::format(
            "{} samples are left out: {}their loss or gradient is not finite, or beyond "
            "averaging.norm_max ({} so far)",
            fresh,
            has_experts ? "too few experts answer (`dedloc watch` shows who serves them), or " : "",
            not_finite_.all()));
}

void TrainerSteps::end_back_off() {
    if (!slow_link_.end()) return;
    // A trainer that keeps some of this step's samples computes the next step's already.
    if (shared_.publisher.phase() == membership::Phase::waiting &&
        contributions_.computes_ahead() && !computes_at_.is_in_step)
        shared_.set_phase(membership::Phase::computing);
    shared_.changed.pulse();
}

bool TrainerSteps::has_something_to_bring() const {
    return computes_at_.is_in_step || contributions_.samples() > 0 || trainer_runs_;
}

void TrainerSteps::drop_rest() {
    tell_of_forgotten();
    if (!ending_.over) drop(contributions_.take_all(), left_early);
}

void TrainerSteps::drop_waiting(std::uint64_t samples) {
    drop(samples, "the collaboration was left before the turn of their fragments");
}

void TrainerSteps::describe(membership::Status& status) const {
    // A peer that has the new state already, and has not begun to compute at it, has nothing for
    // the new step but what it computed ahead.
    if (slow_link_.is_on())
        status.samples = 0;  // nobody shall count on them
    else if (trainer_is_current())
        status.samples = contributions_.samples();
    else if (contributions_.computes_ahead())
        status.samples = contributions_.samples_ahead();
    status.samples_per_s = progress_.samples_per_s();
    const bool computes = status.phase == membership::Phase::computing;
    status.micro_batch_s =
        computes ? progress_.micro_batch_s() : progress_.quickest_micro_batch_s();
    status.loss = contributions_.loss();
    status.committed_samples = contributions_.committed_samples();
}

}  // namespace dedloc::collab
