#include "dedloc/monitor/attendance.h"

#include <algorithm>

namespace dedloc::monitor {

// Steps that take longer than session_gap would each be a session of their own. The lower one of
// two medians: a pause at the beginning is no usual step.
WallSeconds Attendance::gap() const {
    if (intervals_.empty()) return session_gap;
    std::vector<double> sorted(intervals_.begin(), intervals_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
    std::ranges::nth_element(sorted, middle);
    return std::max(session_gap, session_gap_steps * *middle);
}

void Attendance::contributed(const CertifiedStep::Share& share,
                             WallSeconds since,
                             WallSeconds time,
                             WallSeconds gap) {
    const auto [found, is_new] = times_.try_emplace(share.peer);
    DeviceTimes& device = found->second;
    Session& session = sessions_[share.peer];
    if (is_new || time - device.last_seen > gap) {
        session = {.begin = std::max(since, time - session_gap), .seconds_before = device.seconds};
        if (is_new) device.first_seen = session.begin;
        ++device.sessions;
    }
    device.samples += share.samples;
    device.last_seen = time;
    const double seconds = std::max(time - session.begin, session_least);
    device.seconds = session.seconds_before + seconds;
    device.longest_seconds = std::max(device.longest_seconds, seconds);
}

void Attendance::add(const CertifiedStep& step) {
    // The samples in a step were computed since the one before it.
    const WallSeconds since = last_step_.value_or(step.time - session_least);
    if (last_step_) intervals_.push_back(step.time - *last_step_);
    if (intervals_.size() > usual_steps_max) intervals_.pop_front();
    last_step_ = step.time;
    const WallSeconds longest_gap = gap();
    for (const CertifiedStep::Share& share : step.shares) {
        const bool is_counted = times_.size() < devices_max_ || times_.contains(share.peer);
        if (share.samples > 0 && is_counted) contributed(share, since, step.time, longest_gap);
    }
}

double Attendance::seconds_of(const PeerId& peer) const {
    const auto found = times_.find(peer);
    return found == times_.end() ? 0 : found->second.seconds;
}

}  // namespace dedloc::monitor
