#include "dedloc/events/event_rate.h"

namespace dedloc::events {
namespace {

// After those, one in five seconds: with lines of 300 bytes and a dozen kinds a log of 64 MiB
// lasts a day.
constexpr double kind_burst = peers_told_of_max;
constexpr double kind_per_s = 0.2;
constexpr double one_peer_burst = 16;
constexpr double one_peer_per_s = 1.0 / 60;
constexpr Duration left_out_told_every = 60s;

bool others_can_cause(const Event& event) {
    return event.is<PeerJoined,
                    PeerLeft,
                    PeerLost,
                    StateDiffers,
                    Resynced,
                    ReplayFailed,
                    PartsRepaired,
                    OwnerFailed,
                    InputRefused,
                    MessageRefused,
                    RoundFull,
                    LeaderSuspected,
                    RoundFailed,
                    BranchOpened,
                    NewBranch,
                    WaitedInVain>();
}

}  // namespace

// Peers that caused none for long: their budgets are what a new one begins with.
void EventRate::OfKind::forget_quiet(TimePoint now) {
    for (auto entry = peers.begin(); entry != peers.end();)
        entry = entry->second.is_full(now) ? peers.erase(entry) : std::next(entry);
}

bool EventRate::take(OfKind& kind, const PeerId& peer, TimePoint now) {
    if (!peer.is_empty()) {
        if (kind.peers.size() >= peers_told_of_max) kind.forget_quiet(now);
        const bool tracked = kind.peers.size() < peers_told_of_max || kind.peers.contains(peer);
        if (tracked && !kind.peers.try_emplace(peer, one_peer_burst, one_peer_per_s)
                            .first->second.acquire(now))
            return false;
    }
    return kind.all.acquire(now);
}

bool EventRate::may_record(const Event& event, TimePoint now) {
    if (!others_can_cause(event)) return true;
    OfKind& kind =
        kinds_.try_emplace(event.kind(), OfKind{TokenBucket(kind_burst, kind_per_s), {}, 0})
            .first->second;
    if (take(kind, event.peer, now)) return true;
    ++kind.left_out;
    return false;
}

std::vector<EventsLeftOut> EventRate::to_tell(TimePoint now) {
    std::vector<EventsLeftOut> told;
    if (now < told_at_ + left_out_told_every) return told;
    for (auto& [name, kind] : kinds_)
        if (kind.left_out > 0)
            told.push_back({.of = std::string(name), .count = std::exchange(kind.left_out, 0)});
    if (!told.empty()) told_at_ = now;
    return told;
}

}  // namespace dedloc::events
