#include "dedloc/collab/reconnection.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

constexpr Duration hello_patience = 5s;
constexpr Duration meet_again_after = 2s;
constexpr Duration overloaded_pause = 5s;  // until one that knows enough peers is asked again
constexpr Duration meet_again_most = 60s;  // between two tries to reach one
constexpr Duration alone_most = 10s;       // the same, where no member is in reach

}  // namespace

void Reconnection::look() {
    const TimePoint now = clock_.now();
    std::vector<PeerId> due;
    for (const auto& [peer, known] : table_.all())
        if (!known.member && known.status.phase != Phase::leaving && known.next_meeting <= now)
            due.push_back(peer);
    for (const PeerId& peer : due) {
        // Until the try has ended.
        table_.entry_of(peer).next_meeting = now + hello_patience + meet_again_after;
        scope_.spawn("hello", meet_again(peer));
    }
}

Task<void> Reconnection::meet_again(PeerId peer) {
    const TimePoint deadline = clock_.now() + hello_patience;
    const Result<void> greeted = co_await handshake_.greet(peer, deadline);
    if (greeted) co_return;
    if (greeted.error().kind() == ErrorKind::denied) on_refused_(peer, greeted.error());
    const bool overloaded = greeted.error().kind() == ErrorKind::overloaded;
    KnownPeer* const known = table_.find(peer);
    if (known == nullptr) co_return;  // forgotten meanwhile
    known->next_meeting = clock_.now() + (overloaded ? overloaded_pause : until_met_again(*known));
}

// A peer that is alone cannot wait to hear of the others.
Duration Reconnection::until_met_again(const KnownPeer& peer) const {
    const Duration silence = clock_.now() - peer.received;
    const Duration most = table_.live().empty() ? alone_most : meet_again_most;
    return std::clamp<Duration>(silence / 4, meet_again_after, most);
}

}  // namespace dedloc::collab
