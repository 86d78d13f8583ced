#include "dedloc/experts/update_guard.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dedloc::experts {

namespace {

constexpr double newest_counts = 1.0 / 8;

}  // namespace

double UpdateGuard::lately(const Member& member, Duration half, TimePoint now) {
    const Duration since = now - member.half_begun;
    if (since < half) return member.rows_now + member.rows_before;
    return since < 2 * half ? member.rows_now : 0;
}

double UpdateGuard::norm_max(const UpdateLimits& limits, const PeerId& of, double rows) const {
    std::vector<double> logs;
    bool alone = true;
    for (const auto& [id, member] : members_) {
        if (!member.measured) continue;
        logs.push_back(member.usual_log);
        alone = alone && id == of;
    }
    if (logs.empty()) return std::numeric_limits<double>::infinity();
    const auto middle = logs.begin() + static_cast<std::ptrdiff_t>((logs.size() - 1) / 2);
    std::nth_element(logs.begin(), middle, logs.end());
    return (alone ? limits.own_norm_factor : limits.norm_factor) * std::exp(*middle) *
           std::sqrt(rows);
}

std::size_t UpdateGuard::active(const UpdateLimits& limits, TimePoint now) const {
    return static_cast<std::size_t>(std::ranges::count_if(members_, [&](const auto& entry) {
        return entry.second.measured && now - entry.second.heard <= limits.lately;
    }));
}

UpdateGuard::Verdict UpdateGuard::check(const UpdateLimits& limits,
                                        const PeerId& member,
                                        std::size_t rows,
                                        TimePoint now) const {
    Verdict verdict;
    verdict.norm_max = norm_max(limits, member, static_cast<double>(rows));
    if (limits.trains && !limits.trains(member)) {
        verdict.applies = false;
        return verdict;
    }
    double own = static_cast<double>(rows);
    double others = 0;
    for (const auto& [id, known] : members_)
        (id == member ? own : others) += lately(known, limits.lately / 2, now);
    const double share_of_others = limits.share / (1 - limits.share) * others;
    verdict.applies = others == 0 || own <= share_of_others + limits.rows_free;
    return verdict;
}

void UpdateGuard::note(const UpdateLimits& limits,
                       const PeerId& id,
                       std::size_t rows,
                       TimePoint now,
                       const Applied& update) {
    // A gradient that changed nothing says nothing of what is usual.
    if (!update.applied) return;
    const double limit = check(limits, id, rows, now).norm_max;
    if (members_.size() >= limits.members_max && !members_.contains(id))
        members_.erase(std::ranges::min_element(
            members_, {}, [](const auto& entry) { return entry.second.heard; }));
    Member& member = members_[id];
    member.heard = now;
    const Duration half = limits.lately / 2;
    if (now - member.half_begun >= half) {
        member.rows_before = now - member.half_begun < 2 * half ? member.rows_now : 0;
        member.rows_now = 0;
        member.half_begun = now;
    }
    member.rows_now += static_cast<double>(rows);
    const double norm = std::min(update.norm, limit);
    if (!(norm > 0)) return;
    const double log = std::log(norm / std::sqrt(static_cast<double>(rows)));
    member.usual_log += member.measured ? newest_counts * (log - member.usual_log) : log;
    member.measured = true;
}

}  // namespace dedloc::experts
