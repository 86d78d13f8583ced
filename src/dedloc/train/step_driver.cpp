#include "dedloc/train/step_driver.h"

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

void StepDriver::forget(std::uint64_t next_sample) {
    samples_ = {next_sample, next_sample};
    loss_sum_ = 0;
    correct_sum_ = 0;
}

collab::Contribution StepDriver::hand_in(bool ahead, const TakeSums& take) {
    DEDLOC_CHECK(!in_flight_);
    collab::Contribution contribution;
    contribution.samples = samples_;
    contribution.loss_sum = loss_sum_;
    contribution.correct_sum = correct_sum_;
    brought_nothing_ = samples_.size() == 0;
    if (samples_.size() > 0) {
        contribution.sum.resize(vector_count_);
        const std::span<float> all(contribution.sum);
        take(all.first(parameters_count_), all.subspan(parameters_count_), samples_.size());
    }
    forget(samples_.end);
    in_flight_ = true;
    ahead_ = ahead;
    if (ahead) collaboration_->compute_ahead();
    return contribution;
}

bool StepDriver::ended(const Result<collab::StepOutcome>& outcome) {
    in_flight_ = false;
    // A check took all the time that there was: now it is a sample's turn. Else a step that cannot
    // be made without this peer would never be made.
    has_checked_ = has_checked_ && brought_nothing_ && collaboration_->may_compute();
    const bool goes_on = outcome && outcome->kind == collab::StepKind::stepped && outcome->state;
    if (!goes_on) {
        if (ahead_) collaboration_->forget_ahead(samples_.size());
        forget(samples_.end);
    }
    ahead_ = false;
    return goes_on;
}

}  // namespace dedloc::train
