#include "dedloc/train/step_driver.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"

namespace dedloc::train {

StepDriver::Next StepDriver::next() const {
    if (in_flight_) return collaboration_->may_compute_ahead() ? Next::compute : Next::wait;
    if (collaboration_->stopped()) return Next::end;
    return collaboration_->is_to_compute() ? Next::compute : Next::hand_in;
}

bool StepDriver::begins_check() {
    if (in_flight_ || samples_.size() > 0 || has_checked_ || !collaboration_->check_waits())
        return false;
    has_checked_ = true;
    return true;
}

void StepDriver::computed(collab::CounterRange range,
                          const GradientReport& report,
                          double seconds) {
    samples_.end = range.end;
    loss_sum_ += report.loss_sum;
    correct_sum_ += report.correct_sum;
    collaboration_->report(range.size(), report.loss_sum, seconds);
}

void StepDriver::left_out(collab::CounterRange range) {
    samples_.end = range.end;
    samples_.leave_out(range.size());
    collaboration_->report_not_finite(range.size());
}

bool StepDriver::has_progress() const {
    return samples_.size() > 0 || std::ranges::any_of(fragments_, [](const Fragment& fragment) {
               return fragment.samples.size() > 0;
           });
}

void StepDriver::forget(std::uint64_t next_sample) {
    for (Fragment& fragment : fragments_) fragment = {.samples = {next_sample, next_sample}};
    begin_anew(next_sample);
}

void StepDriver::begin_anew(std::uint64_t next_sample) {
    samples_ = {next_sample, next_sample};
    loss_sum_ = 0;
    correct_sum_ = 0;
}

// Where all of a row was left out, it begins after that: those are left out of the fragments too.
void StepDriver::add_to_fragments() {
    for (Fragment& fragment : fragments_) {
        collab::CounterRange& samples = fragment.samples;
        samples.left_out += samples_.begin - samples.end + samples_.left_out;
        samples.end = samples_.end;
        if (samples.size() == 0) samples = {samples.end, samples.end};
        fragment.loss_sum += loss_sum_;
        fragment.correct_sum += correct_sum_;
    }
}

void StepDriver::set_sums(collab::Contribution& contribution, std::uint64_t step) {
    if (fragments_.empty()) {
        contribution.samples = samples_;
        contribution.loss_sum = loss_sum_;
        contribution.correct_sum = correct_sum_;
        return;
    }
    add_to_fragments();
    const collab::CounterRange next{samples_.end, samples_.end};
    const Fragment fragment =
        std::exchange(fragments_[step % fragments_.size()], {.samples = next});
    contribution.samples = fragment.samples;
    contribution.loss_sum = fragment.loss_sum;
    contribution.correct_sum = fragment.correct_sum;
    contribution.moved = consensus::fragment_of(vector_count_, fragments_.size(), step);
    contribution.waiting = waiting();
}

collab::Contribution StepDriver::hand_in(bool ahead, const TakeSums& take, std::uint64_t step) {
    DEDLOC_CHECK(!in_flight_);
    collab::Contribution contribution;
    set_sums(contribution, step);
    const std::uint64_t samples = contribution.samples.size();
    brought_nothing_ = samples == 0;
    if (samples > 0) {
        contribution.sum.resize(vector_count_);
        const std::span<float> all(contribution.sum);
        take(all.first(parameters_count_), all.subspan(parameters_count_), samples);
    }
    begin_anew(samples_.end);
    in_flight_ = true;
    ahead_ = ahead;
    if (ahead) collaboration_->compute_ahead();
    return contribution;
}

// Local steps of fragments whose turn has not come. Samples of this step are not among them.
collab::WaitingSamples StepDriver::waiting() const {
    collab::WaitingSamples waiting;
    for (const Fragment& each : fragments_) waiting.push_back(each.samples.size());
    return waiting;
}

bool StepDriver::ended(const Result<collab::StepOutcome>& outcome) {
    in_flight_ = false;
    // A check took all the time that there was: now it is a sample's turn. Else a step that cannot
    // be made without this peer would never be made.
    has_checked_ = has_checked_ && brought_nothing_ && collaboration_->may_compute();
    const bool goes_on = outcome && outcome->kind == collab::StepKind::stepped && outcome->state;
    if (!goes_on) {
        const std::uint64_t forgotten = collab::total_of(waiting(), vector_count_);
        if (ahead_ || forgotten > 0)
            collaboration_->forget_ahead((ahead_ ? samples_.size() : 0) + forgotten);
        forget(samples_.end);
    }
    ahead_ = false;
    return goes_on;
}

}  // namespace dedloc::train
