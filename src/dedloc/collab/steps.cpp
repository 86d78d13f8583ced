// The trainer's side of a collaboration: when a step is due, what is handed in, what comes back.

#include <cmath>

#include "dedloc/collab/collaboration_impl.h"

namespace dedloc::collab {
namespace {

// Weight of a new measurement in the smoothed speed (hivemind's performance EMA).
constexpr double smoothing = 0.1;
constexpr double stall_factor = 4;
constexpr Duration not_finite_pause = 5s;
constexpr std::size_t others_least = 2;  // that compute: with fewer, whoever rests is needed
constexpr double another_line = 1.5;     // times as fast as it was: no reason to rest any more
// Claims of others are extrapolated this far beyond their last word, in status intervals.
constexpr double extrapolation_intervals = 1.5;

}  // namespace

std::shared_ptr<const state::Snapshot> CollaborationImpl::state() const {
    const std::lock_guard lock(state_mutex_);
    return state_;
}

void CollaborationImpl::report(std::uint64_t samples, double loss_sum, double seconds) {
    const bool for_open_step = add_to_sums(samples, loss_sum);
    if (seconds > 0) {
        const double rate = static_cast<double>(samples) / seconds;
        const double before = samples_per_s_;
        samples_per_s_ = before > 0 ? before + smoothing * (rate - before) : rate;
        // A process that was stopped has not become slow: one long gap counts for little.
        const double usual = micro_batch_s_;
        micro_batch_s_ = usual > 0 ? std::min(seconds, usual * stall_factor) : seconds;
    }
    if (for_open_step && batch_is_full()) step_due_ = true;
}

// Whether it belongs to the open step.
bool CollaborationImpl::add_to_sums(std::uint64_t samples, double loss_sum) {
    const std::lock_guard lock(ahead_mutex_);
    if (ahead_ == Ahead::no) {
        samples_ += samples;
        loss_sum_ = loss_sum_ + loss_sum;
    } else if (ahead_ == Ahead::yes) {
        samples_ahead_ += samples;
        loss_ahead_ += loss_sum;
    }
    return ahead_ == Ahead::no;
}

void CollaborationImpl::compute_ahead() {
    const std::lock_guard lock(ahead_mutex_);
    ahead_ = Ahead::yes;
}

// Our share of the next batch, by the speeds of all.
bool CollaborationImpl::may_compute_ahead() const {
    if (ahead_ != Ahead::yes || over_ || leaving_ || resting_) return false;
    const double own = samples_per_s_;
    const double all = own + others_speed_;
    const auto target = static_cast<double>(options_.run.batch.target);
    const double share = all > 0 ? target * own / all : target;
    return static_cast<double>(samples_ahead_) < share;
}

void CollaborationImpl::forget_ahead(std::uint64_t samples) {
    const std::lock_guard lock(ahead_mutex_);
    ahead_ = Ahead::no;
    samples_ahead_ = 0;
    loss_ahead_ = 0;
    forgotten_ += samples;
}

double CollaborationImpl::samples_everywhere() const {
    const double age =
        static_cast<double>(node_.clock.now().since_start.count() - others_at_ns_) / 1e9;
    const double age_max = to_seconds(options_.status_interval) * extrapolation_intervals;
    return static_cast<double>(samples_) + others_samples_ +
           others_per_s_ * std::clamp(age, 0.0, age_max);
}

// Nobody can stop in the middle of a micro-batch, so that half of one more is on its way on
// average, of each peer's own length: full is when the batch will be as near to the target as it
// can.
bool CollaborationImpl::batch_is_full() const {
    const double on_its_way = 0.5 * (micro_batch_s_ * samples_per_s_ + others_in_micro_batches_);
    const auto target = static_cast<double>(options_.run.batch.target);
    return samples_everywhere() + std::min(on_its_way, target / 2) >= target;
}

bool CollaborationImpl::step_due() const { return step_due_ || over_ || leaving_; }

bool CollaborationImpl::stopped() const { return over_ || leaving_; }

// Everybody computes the same estimate from the same statuses: what the others have accumulated at
// our step, each extrapolated by its own measured speed for a bounded time.
void CollaborationImpl::refresh_progress() {
    if (options_.role != Role::trainer || !ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    const double age_max = to_seconds(options_.status_interval) * extrapolation_intervals;
    const auto target = static_cast<double>(options_.run.batch.target);
    double others = 0;
    double others_rate = 0;
    double others_in_micro_batches = 0;
    double others_speed = 0;
    for (const KnownPeer* peer : membership_->live()) {
        const Status& status = peer->status;
        if (status.role != Role::trainer) continue;
        // A claim beyond the whole batch says nothing more; a speed beyond it a second neither.
        const double speed = std::clamp(status.samples_per_s, 0.0, target);
        // Who is a step before or behind for a moment shares the next batch all the same.
        if (status.is_training()) others_speed += speed;
        if (!stands_on(status, base)) continue;
        const double age = to_seconds(node_.clock.now() - peer->status_at);
        const double rate = status.phase == Phase::computing ? speed : 0.0;
        const double claimed = static_cast<double>(status.samples) + rate * std::min(age, age_max);
        others += std::min({claimed, target, computed_most(*peer, /*carried=*/false)});
        if (age < age_max) {
            others_rate += rate;
            others_in_micro_batches += std::min(rate * status.micro_batch_s, target);
        }
    }
    others_per_s_ = others_rate;
    others_in_micro_batches_ = others_in_micro_batches;
    others_speed_ = others_speed;
    others_samples_ = others;
    others_at_ns_ = node_.clock.now().since_start.count();
    if (batch_is_full() && (samples_ > 0 || resting_) && !step_due_) {
        step_due_ = true;
        changed_.pulse();
    }
    if (step_due_ && base.state && trainer_is_current()) engine_->set_wanted(true);
}

// A line that has become faster, or nobody to train together with the others any more.
bool CollaborationImpl::is_needed() const {
    const std::vector<const KnownPeer*> live = membership_->live();
    const auto training = std::ranges::count_if(
        live, [](const KnownPeer* peer) { return peer->status.is_training(); });
    return static_cast<std::size_t>(training) < others_least ||
           line() > line_at_rest_ * another_line;
}

Task<void> CollaborationImpl::watch_progress() {
    for (;;) {
        part_from_lost_state();
        refresh_progress();
        if (resting_ && is_needed()) end_rest();
        tell_of_not_finite();
        tell_of_forgotten();
        co_await node_.clock.sleep_for(options_.status_interval / 5);
    }
}

// Once for many: a model that has blown up gives nothing else.
void CollaborationImpl::tell_of_not_finite() {
    const std::uint64_t all = samples_not_finite_;
    const TimePoint now = node_.clock.now();
    if (all == not_finite_told_ ||
        (not_finite_told_ > 0 && now < not_finite_told_at_ + not_finite_pause))
        return;
    const std::uint64_t fresh = all - not_finite_told_;
    not_finite_told_ = all;
    not_finite_told_at_ = now;
    emit(events::NotFinite{.samples = fresh},
         {},
         fmt::format("{} samples are left out: their loss or gradient is not finite, or beyond "
                     "averaging.norm_max ({} so far)",
                     fresh,
                     all));
}

bool CollaborationImpl::trainer_is_current() const {
    const auto current = state();
    return current && current->step() == trainer_at_.step &&
           current->info().branch == trainer_at_.branch && !replaced_;
}

// The trainer goes on from the state it is given now, with or without what it computed ahead.
void CollaborationImpl::begin_computing(bool keep_ahead) {
    const auto current = state();
    trainer_at_.step = current->step();
    trainer_at_.branch = current->info().branch;
    replaced_ = false;
    {
        const std::lock_guard lock(ahead_mutex_);
        samples_ = keep_ahead ? samples_ahead_.load() : 0;
        loss_sum_ = keep_ahead ? loss_ahead_ : 0;
        samples_ahead_ = 0;
        loss_ahead_ = 0;
        if (ahead_ != Ahead::no) ahead_ = keep_ahead ? Ahead::no : Ahead::lost;
    }
    step_due_ = false;
    // A leaver that computed ahead still has something to hand in.
    if (phase_ != Phase::leaving && (!leaving_ || samples_ > 0))
        set_phase(resting_ ? Phase::waiting : Phase::computing);
    refresh_progress();
}

// Of a step that we took part in. What was computed ahead is worth something one step later only;
// a leaver hands it in.
StepKind CollaborationImpl::how_it_ended() const {
    const bool ahead = ahead_ == Ahead::yes;
    if (over_ || (leaving_ && !ahead)) return StepKind::stopped;
    const bool too_far = ahead && state()->step() > trainer_at_.step + 1;
    return replaced_ || too_far ? StepKind::resynced : StepKind::stepped;
}

StepOutcome CollaborationImpl::outcome(StepKind kind) {
    StepOutcome outcome;
    outcome.kind = kind;
    outcome.state = state();
    begin_computing(/*keep_ahead=*/kind == StepKind::stepped);
    return outcome;
}

void CollaborationImpl::tell_of_forgotten() {
    drop(forgotten_.exchange(0), "they were computed ahead of a step that was not made here");
}

void CollaborationImpl::drop(std::uint64_t samples, std::string_view why) {
    if (samples == 0) return;
    accounts_.samples_dropped += samples;
    emit(events::SamplesDropped{.samples = samples},
         {},
         fmt::format("{} samples are dropped: {}", samples, why));
}

// Handed in again it would be refused again, and no step would ever be made.
void CollaborationImpl::forget_refused() {
    const std::uint64_t samples = handed_in_->fresh.size();
    carry_.forget();
    handed_in_.reset();
    drop(samples, "their mean is not finite, or beyond the run's averaging.norm_max");
}

// Nothing that was decided is still to be applied: the newest state is the open step's.
bool CollaborationImpl::has_open_state() const {
    return ledger_.base().state && follower_->up_to_date();
}

Task<void> CollaborationImpl::wait_for_state() {
    while (!stopped_tasks_ && !has_open_state())
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 20ms);
}

// A leaver does not cut the others' batch short: it waits until the step is due, for a while. The
// others may make a step meanwhile; before that is applied nobody can tell that ours is late.
Task<bool> CollaborationImpl::wait_to_hand_in_last() {
    const TimePoint until = std::min(leave_deadline_, node_.clock.now() + Duration(60s));
    while (!over_ && node_.clock.now() < until) {
        if (has_open_state() && (batch_is_full() || !trainer_is_current())) co_return true;
        if (live_trainers().empty()) co_return false;  // nobody is left to take it
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 50ms);
    }
    co_return false;
}

// Whoever has still samples keeps them until then; when it rests no more, and has computed its
// share of the step after this one, nobody else may be left to make this one due. False: the rest
// is over before.
Task<bool> CollaborationImpl::rest_until_due(bool has_samples) {
    const auto has_done_all = [this] {
        return !resting_ && ahead_ == Ahead::yes && !may_compute_ahead();
    };
    while ((resting_ || has_samples) && !step_due() && !has_done_all() && !stopped_tasks_)
        (void)co_await changed_.wait_until(node_.clock, node_.clock.now() + 50ms);
    co_return step_due() || has_samples || stopped_tasks_;
}

// A new branch begins with the step that was open: what was handed in for it is worth as much
// there.
bool CollaborationImpl::is_still_to_be_averaged(const allreduce::RoundInput& input) const {
    const bool patient = !leaving_ || node_.clock.now() < leave_deadline_;
    return !input.input.is_empty() && handed_in_ && trainer_is_current() && patient && !over_ &&
           !stopped_tasks_;
}

Task<Result<StepOutcome>> CollaborationImpl::step(Contribution contribution) {
    const bool has_samples = contribution.samples.size() > 0;
    if (resting_ && !co_await rest_until_due(has_samples)) co_return outcome(StepKind::stepped);
    co_await wait_for_state();
    if (over_ || stopped_tasks_) {
        drop(contribution.samples.size(), "the run is over");
        co_return outcome(StepKind::stopped);
    }
    if (leaving_ && !co_await wait_to_hand_in_last()) {
        drop(contribution.samples.size(), "the collaboration was left before a step was due");
        co_return outcome(StepKind::stopped);
    }
    if (!trainer_is_current()) {
        const auto current = state();
        const bool one_late = !replaced_ && current->info().branch == trainer_at_.branch &&
                              current->step() == trainer_at_.step + 1;
        if (one_late)
            carry_.hand_in_late(contribution.samples, std::move(contribution.sum));
        else
            drop(contribution.samples.size(), "they were computed at a state that is too old");
        co_return outcome(one_late ? StepKind::stepped : StepKind::resynced);
    }
    if (contribution.samples.size() > 0)
        handed_in_loss_ = contribution.loss_sum / static_cast<double>(contribution.samples.size());
    const auto input = carry_.hand_in(contribution.samples, std::move(contribution.sum));
    handed_in_ = input->input;
    handed_in_at_ = node_.clock.now();
    in_step_ = true;
    if (leaving_)
        set_phase(Phase::leaving);
    else if (!resting_)
        set_phase(Phase::averaging);
    do {
        co_await engine_->participate(input);
        co_await wait_for_state();
    } while (is_still_to_be_averaged(*input) && !engine_->own_refused());
    const bool refused = engine_->own_refused() && is_still_to_be_averaged(*input);
    if (refused) forget_refused();
    in_step_ = false;
    changed_.pulse();
    StepOutcome decided = outcome(how_it_ended());
    decided.refused = refused;
    co_return decided;
}

}  // namespace dedloc::collab
