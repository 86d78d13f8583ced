#include "dedloc/membership/batch_progress.h"

#include <algorithm>

namespace dedloc::membership {
namespace {

constexpr double stall_factor = 4;
// Claims of others are extrapolated this far beyond their last word, in status intervals.
constexpr double extrapolation_intervals = 1.5;

}  // namespace

BatchProgress::BatchProgress(std::uint64_t target, Duration status_interval, std::uint64_t micro)
    : target_(static_cast<double>(target)),
      age_max_(to_seconds(status_interval) * extrapolation_intervals),
      micro_(static_cast<double>(micro)) {}

void BatchProgress::report_speed(std::uint64_t samples, double seconds) {
    if (samples == 0 || !(seconds > 0)) return;
    pace_.add(static_cast<double>(samples), seconds);
    samples_per_s_ = pace_.samples_per_s();
    samples_of_micro_batch_ = pace_.samples_of_micro_batch();
    // A process that was stopped has not become slow: one long gap counts for little.
    const double usual = micro_batch_s_;
    micro_batch_s_ = usual > 0 ? std::min(seconds, usual * stall_factor) : seconds;
    quickest_micro_batch_s_ = micro_ > 0 ? micro_ * pace_.quickest_s() : micro_batch_s_.load();
}

void BatchProgress::refresh(const std::vector<Other>& others, TimePoint now) {
    double samples = 0;
    double rate_of_all = 0;
    double in_micro_batches = 0;
    double speed_of_all = 0;
    for (const Other& other : others) {
        const Status& status = other.peer->status;
        // A claim beyond the whole batch says nothing more; a speed beyond it a second neither.
        const double speed = std::clamp(status.samples_per_s, 0.0, target_);
        // A peer that is a step before or behind for a moment shares the next batch all the same.
        if (status.is_training()) speed_of_all += speed;
        if (!other.works_on_open_step) continue;
        const double age = to_seconds(now - other.peer->status_at);
        const double rate = status.phase == Phase::computing ? speed : 0.0;
        const double claimed = static_cast<double>(status.samples) + rate * std::min(age, age_max_);
        samples += std::min({claimed, target_, other.believed_most});
        if (age < age_max_) {
            rate_of_all += rate;
            if (rate > 0)
                in_micro_batches +=
                    std::min(std::max(rate * status.micro_batch_s, micro_), target_);
        }
    }
    others_per_s_ = rate_of_all;
    others_in_micro_batches_ = in_micro_batches;
    others_speed_ = speed_of_all;
    others_samples_ = samples;
    others_at_ns_ = now.since_start.count();
}

double BatchProgress::samples_everywhere(std::uint64_t own, TimePoint now) const {
    const double age = static_cast<double>(now.since_start.count() - others_at_ns_) / 1e9;
    return static_cast<double>(own) + others_samples_ +
           others_per_s_ * std::clamp(age, 0.0, age_max_);
}

bool BatchProgress::is_full(std::uint64_t own, TimePoint now) const {
    const double on_its_way = 0.5 * (samples_of_micro_batch_ + others_in_micro_batches_);
    return samples_everywhere(own, now) + std::min(on_its_way, target_ / 2) >= target_;
}

double BatchProgress::own_share() const {
    const double own = samples_per_s_;
    const double all = own + others_speed_;
    return all > 0 ? target_ * own / all : target_;
}

}  // namespace dedloc::membership
