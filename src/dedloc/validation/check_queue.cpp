#include "dedloc/validation/check_queue.h"

#include <algorithm>

namespace dedloc::validation {
namespace {

bool is_newcomers(const CheckQueue::Job& job) { return job.reason == CheckQueue::Reason::newcomer; }

}  // namespace

void CheckQueue::add(Job job) {
    if (jobs_.size() >= jobs_max) {
        const auto oldest = std::ranges::find_if(jobs_, is_newcomers);
        if (oldest == jobs_.end()) return;
        jobs_.erase(oldest);
    }
    jobs_.push_back(std::move(job));
}

std::optional<CheckQueue::Job> CheckQueue::take() {
    if (jobs_.empty()) return std::nullopt;
    auto next = std::ranges::min_element(jobs_, {}, &Job::reason);  // the oldest of them
    if (is_newcomers(*next)) next = std::prev(jobs_.end());
    Job job = std::move(*next);
    jobs_.erase(next);
    return job;
}

void CheckQueue::forget_newcomers(const Digest& draw) {
    std::erase_if(jobs_, [&draw](const Job& job) { return is_newcomers(job) && job.draw == draw; });
}

}  // namespace dedloc::validation
