#include "dedloc/allreduce/pacing.h"

namespace dedloc::allreduce {
namespace {

// Silence of one that keeps all others waiting at a full memory; a live peer needs less.
constexpr Duration sleeper_timeout_min = 500ms;
// One member may be read ahead of the slowest by what the slowest brings in a second, but some
// parts at least. More only takes its share of the owner's link.
constexpr std::size_t read_ahead_min = 4;  // parts

}  // namespace

Pacing::Pacing(const Transfer& transfer) : transfer_(transfer) {
    const std::vector<consensus::PlanMember>& members = transfer_.plan.members;
    for (std::uint32_t i = 0; i < members.size(); ++i)
        if (!transfer_.environment.is_waited_for(members[i].peer)) doubtful_.insert(i);
}

bool Pacing::is_waited_for(std::uint32_t member) const {
    if (given_up_.contains(member)) return false;
    return member == transfer_.me || !doubtful_.contains(member) || arrived_.contains(member) ||
           transfer_.now() < transfer_.started + time_to_begin();
}

Duration Pacing::grace() const {
    if (!transfer_.state.waits_for_weightless.has(transfer_.now())) return Duration(0);
    const Duration answer = transfer_.environment.timeouts.answer();
    return std::max<Duration>(answer, (transfer_.now() - transfer_.started) / 2);
}

void Pacing::do_not_wait_for(std::uint32_t member) {
    if (given_up_.empty()) (void)transfer_.state.waits_for_weightless.acquire(transfer_.now());
    given_up_.insert(member);
}

// How long a part takes until it is closed, on average.
Duration Pacing::part_pace() const {
    const Duration pace =
        (transfer_.now() - transfer_.started) / static_cast<int>(std::max<std::size_t>(closed_, 1));
    return std::max(pace, Duration(1));
}

// Will the parts be closed in time, if they go on as they have?
bool Pacing::is_on_schedule() const {
    const double share = static_cast<double>(closed_ + 1) / static_cast<double>(opened_);
    const double due = to_seconds(time_to_contribute()) * 3 / 4 * share;
    return transfer_.now() - transfer_.started <= timeout_with_one() + from_seconds(due);
}

// Has this member sent what is due much later than what the slowest one sends?
bool Pacing::is_far_ahead(std::size_t parts) const {
    if (parts < closed_ + read_ahead_min) return false;
    const auto in_a_second = static_cast<std::size_t>(read_ahead / part_pace());
    return parts >= closed_ + in_a_second;
}

Duration Pacing::timeout_with_one() const {
    return std::max<Duration>(std::chrono::milliseconds(transfer_.plan.reduce_ms) / 8,
                              sleeper_timeout_min);
}

// Lost since the exchange began, and not back.
bool Pacing::is_gone(std::uint32_t member) const {
    return gone_.contains(member) &&
           !transfer_.environment.host.is_connected(transfer_.plan.members[member].peer);
}

TimePoint Pacing::newest_of(const std::set<std::uint32_t>& members, TimePoint at_least) const {
    TimePoint newest = at_least;
    for (const std::uint32_t member : members)
        if (const auto at = arrived_.find(member); at != arrived_.end())
            newest = std::max(newest, at->second);
    return newest;
}

}  // namespace dedloc::allreduce
