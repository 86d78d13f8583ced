// The trainer's side of a collaboration: when a step is due, what is handed in, what comes back.

#include <algorithm>

#include "dedloc/collab/collaboration_impl.h"

namespace dedloc::collab {
namespace {

constexpr Duration last_step_patience = 60s;  // of a leaver, until a step is due
constexpr Duration look_interval = 50ms;
constexpr Duration state_look_interval = 20ms;

}  // namespace

void CollaborationImpl::report(std::uint64_t samples, double loss_sum, double seconds) {
    const bool for_open_step = contributions_.add(samples, loss_sum);
    progress_.report_speed(samples, seconds);
    if (for_open_step && batch_is_full()) step_due_ = true;
}

bool CollaborationImpl::may_compute_ahead() const {
    if (!contributions_.computes_ahead() || stopped() || back_off_.is_on()) return false;
    return static_cast<double>(contributions_.samples_ahead()) < progress_.own_share();
}

bool CollaborationImpl::batch_is_full() const {
    return progress_.is_full(contributions_.samples(), node_.clock.now());
}

void CollaborationImpl::refresh_progress() {
    if (!trains() || !backend_->started()) return;
    const TimePoint now = node_.clock.now();
    std::vector<membership::BatchProgress::Other> others;
    for (const membership::KnownPeer* peer : membership_->live()) {
        if (peer->status.role != membership::Role::trainer) continue;
        if (!claims_.promises().are_believed(peer->contributed, now)) continue;
        // Rounds wait for the time of a micro-batch, of whichever step it is.
        const bool claims_samples =
            peer->status.samples > 0 && backend_->works_on_open_step(peer->status);
        if (!peer->contributed && (claims_samples || peer->status.micro_batch_s > 0))
            claims_.promises().made_by(peer->status.peer);
        others.push_back({.peer = peer,
                          .works_on_open_step = backend_->works_on_open_step(peer->status),
                          .believed_most = claims_.computed_most(*peer, /*carried=*/false, now)});
    }
    progress_.refresh(others, now);
    const bool takes_part = contributions_.samples() > 0 || back_off_.is_on();
    if (batch_is_full() && takes_part && !step_due_) {
        step_due_ = true;
        changed_.pulse();
    }
    if (step_due_ && trainer_is_current()) backend_->want_round();
}

bool CollaborationImpl::trainer_is_current() const {
    const auto current = state();
    return current && current->step() == computes_at_.step.step &&
           current->info().branch == computes_at_.step.branch && !computes_at_.state_is_replaced;
}

// The trainer goes on from the state it is given now, with or without what it computed ahead.
void CollaborationImpl::begin_computing(bool keep_ahead) {
    const auto current = state();
    computes_at_.step.step = current->step();
    computes_at_.step.branch = current->info().branch;
    computes_at_.state_is_replaced = false;
    contributions_.begin_step(keep_ahead);
    step_due_ = false;
    // A leaver that computed ahead still has something to hand in.
    if (publisher_.phase() != membership::Phase::leaving &&
        (!leaving_.begun || contributions_.samples() > 0))
        set_phase(rests() ? membership::Phase::waiting : membership::Phase::computing);
    refresh_progress();
}

// Asked for a step that we took part in. A gradient computed ahead is worth something one step
// later only; a leaver hands it in.
StepKind CollaborationImpl::how_it_ended() const {
    const bool ahead = contributions_.computes_ahead();
    if (ending_.over || (leaving_.begun && !ahead)) return StepKind::stopped;
    const bool too_far = ahead && state()->step() > computes_at_.step.step + 1;
    return computes_at_.state_is_replaced || too_far ? StepKind::resynced : StepKind::stepped;
}

StepOutcome CollaborationImpl::outcome(StepKind kind) {
    StepOutcome outcome;
    outcome.kind = kind;
    outcome.state = state();
    begin_computing(/*keep_ahead=*/kind == StepKind::stepped);
    return outcome;
}

void CollaborationImpl::tell_of_forgotten() {
    drop(contributions_.take_forgotten(),
         "they were computed ahead of a step that was not made here");
}

void CollaborationImpl::drop(std::uint64_t samples, std::string_view why) {
    if (samples == 0) return;
    accounts_.samples_dropped += samples;
    tell(events::SamplesDropped{.samples = samples},
         {},
         fmt::format("{} samples are dropped: {}", samples, why));
}

Task<void> CollaborationImpl::wait_for_state() {
    while (!ending_.tasks_stopped && !backend_->has_open_state())
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + state_look_interval);
}

// A leaver does not cut the others' batch short: it waits until the step is due, for a while. The
// others may make a step meanwhile; before that is applied nobody can tell that ours is late.
Task<bool> CollaborationImpl::wait_to_hand_in_last() {
    const TimePoint until = std::min(leaving_.deadline, node_.clock.now() + last_step_patience);
    while (!ending_.over && node_.clock.now() < until) {
        if (backend_->has_open_state() && (batch_is_full() || !trainer_is_current()))
            co_return true;
        const bool somebody_takes_it =
            std::ranges::any_of(membership_->live(), [](const membership::KnownPeer* peer) {
                return peer->status.role == membership::Role::trainer;
            });
        if (!somebody_takes_it) co_return false;
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + look_interval);
    }
    co_return false;
}

// A peer that still has samples keeps them until then; when it backs off no more, and has computed
// its share of the step after this one, nobody else may be left to make this one due. False: the
// back-off is over before.
Task<bool> CollaborationImpl::back_off_until_due(bool has_samples) {
    const auto has_done_all = [this] {
        return !rests() && contributions_.computes_ahead() && !may_compute_ahead();
    };
    while ((rests() || has_samples) && !step_due() && !has_done_all() && !ending_.tasks_stopped &&
           !check_waits())
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + look_interval);
    co_return step_due() || has_samples || ending_.tasks_stopped;
}

// A new branch begins with the step that was open: what was handed in for it is worth as much
// there.
bool CollaborationImpl::is_still_to_be_averaged(const allreduce::RoundInput& input) const {
    const bool patient = !leaving_.begun || node_.clock.now() < leaving_.deadline;
    return !input.input.is_empty() && contributions_.handed_in() && trainer_is_current() &&
           patient && !ending_.over && !ending_.tasks_stopped;
}

// Handed in again it would be refused again, and no step would ever be made.
void CollaborationImpl::forget_refused() {
    drop(contributions_.forget_refused(),
         "their mean is not finite, or beyond the run's averaging.norm_max");
}

// The step that it was computed for is made already.
StepOutcome CollaborationImpl::too_late(Contribution contribution) {
    const auto current = state();
    const bool one_late = !computes_at_.state_is_replaced &&
                          current->info().branch == computes_at_.step.branch &&
                          current->step() == computes_at_.step.step + 1;
    if (one_late)
        contributions_.hand_in_late(contribution.samples, std::move(contribution.sum));
    else
        drop(contribution.samples.size(), "they were computed at a state that is too old");
    return outcome(one_late ? StepKind::stepped : StepKind::resynced);
}

Task<Result<StepOutcome>> CollaborationImpl::step(Contribution contribution) {
    const bool has_samples = contribution.samples.size() > 0;
    if (rests() && !co_await back_off_until_due(has_samples)) co_return outcome(StepKind::stepped);
    co_await wait_for_state();
    if (!ending_.kept_out.empty()) co_return make_error(ErrorKind::denied, "{}", ending_.kept_out);
    if (ending_.over || ending_.tasks_stopped) {
        drop(contribution.samples.size(), "the run is over");
        co_return outcome(StepKind::stopped);
    }
    if (leaving_.begun && !co_await wait_to_hand_in_last()) {
        drop(contribution.samples.size(), "the collaboration was left before a step was due");
        co_return outcome(StepKind::stopped);
    }
    if (!trainer_is_current()) co_return too_late(std::move(contribution));
    const auto input = contributions_.hand_in(contribution.samples,
                                              std::move(contribution.sum),
                                              contribution.loss_sum,
                                              node_.clock.now());
    computes_at_.is_in_step = true;
    if (leaving_.begun)
        set_phase(membership::Phase::leaving);
    else if (!rests())
        set_phase(membership::Phase::averaging);
    do {
        co_await backend_->average(input);
        co_await wait_for_state();
    } while (is_still_to_be_averaged(*input) && !backend_->own_refused());
    if (!ending_.kept_out.empty()) co_return make_error(ErrorKind::denied, "{}", ending_.kept_out);
    const bool refused = backend_->own_refused() && is_still_to_be_averaged(*input);
    if (refused) forget_refused();
    computes_at_.is_in_step = false;
    changed_.pulse();
    StepOutcome decided = outcome(how_it_ended());
    decided.refused = refused;
    co_return decided;
}

// ---- checks of others ---------------------------------------------------------------------------

Task<Result<std::optional<validation::CheckJob>>> CollaborationImpl::take_check() {
    co_return backend_->take_check();
}

Task<Result<void>> CollaborationImpl::checked(validation::CheckResult result) {
    co_await backend_->checked(std::move(result));
    co_return Result<void>();
}

}  // namespace dedloc::collab
