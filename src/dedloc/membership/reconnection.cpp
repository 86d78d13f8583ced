#include "dedloc/membership/reconnection.h"

#include <algorithm>

namespace dedloc::membership {
namespace {

constexpr Duration hello_timeout = 5s;
constexpr Duration meet_again_after = 2s;
constexpr Duration overloaded_pause = 5s;  // until one that knows enough peers is asked again
constexpr Duration meet_again_most = 60s;  // between two tries to reach one
constexpr Duration alone_most = 10s;       // the same, where no member is in reach
// In a row, of one that never proved itself, and of one that did, but has brought nothing yet.
constexpr std::uint32_t heard_of_tries = 4;
constexpr std::uint32_t newcomer_tries = 20;

}  // namespace

void Reconnection::poll() {
    const TimePoint now = clock_.now();
    std::vector<PeerId> due;
    for (const auto& [peer, known] : table_.all())
        if (!known.member && known.status.phase != Phase::leaving && known.next_meeting <= now)
            due.push_back(peer);
    for (const PeerId& peer : due) {
        // Until the try has ended.
        table_.entry_of(peer).next_meeting = now + hello_timeout + meet_again_after;
        scope_.spawn("hello", meet_again(peer));
    }
}

Task<void> Reconnection::meet_again(PeerId peer) {
    const TimePoint deadline = clock_.now() + hello_timeout;
    const Result<void> greeted = co_await handshake_.greet(peer, deadline);
    if (greeted) co_return;
    if (greeted.error().kind() == ErrorKind::denied) on_refused_(peer, greeted.error());
    const bool overloaded = greeted.error().kind() == ErrorKind::overloaded;
    KnownPeer* const known = table_.find(peer);
    if (known == nullptr) co_return;  // forgotten meanwhile
    known->next_meeting = overloaded ? clock_.now() + overloaded_pause : next_try(*known);
}

// Never: until it says hello itself.
TimePoint Reconnection::next_try(KnownPeer& peer) const {
    const std::uint32_t most = peer.was_member ? newcomer_tries : heard_of_tries;
    const bool alone = table_.live().empty();  // then it may be the only one there is
    if (++peer.tries >= most && !peer.contributed && !alone) return TimePoint::never();
    return clock_.now() + until_met_again(peer);
}

// A peer that is alone cannot wait to hear of the others.
Duration Reconnection::until_met_again(const KnownPeer& peer) const {
    const Duration silence = clock_.now() - peer.received;
    const Duration most = table_.live().empty() ? alone_most : meet_again_most;
    return std::clamp<Duration>(silence / 4, meet_again_after, most);
}

}  // namespace dedloc::membership
