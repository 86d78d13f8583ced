// The part of Swarm that decides which connections may go: those that nobody uses any more, and,
// when the house is full, the one that is missed least. Never one to a protected peer, to a relay
// at which we have a place, or to a peer that has its place here.

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/swarm_parts.h"

namespace dedloc::p2p {

void Swarm::protect(const PeerId& peer, bool needed) {
    if (needed)
        protected_.insert(peer);
    else
        protected_.erase(peer);
}

bool Swarm::is_needed(const PeerId& peer) const {
    return protected_.contains(peer) || (options_.is_needed && options_.is_needed(peer));
}

// Of those nobody needs: one without streams before one with, the longest unused before others.
Swarm::ConnectionPtr Swarm::least_missed() const {
    ConnectionPtr chosen;
    std::pair<bool, TimePoint> chosen_worth;
    for (const auto& [peer, twins] : peers_) {
        if (is_needed(peer)) continue;
        for (const ConnectionPtr& one : twins) {
            const std::pair worth(one->session().streams_count() > 0, one->used_at());
            if (chosen && worth >= chosen_worth) continue;
            chosen = one;
            chosen_worth = worth;
        }
    }
    return chosen;
}

bool Swarm::make_room_for_connection() {
    if (connections_count_ < options_.connections_max) return true;
    const ConnectionPtr victim = least_missed();
    if (!victim) return false;
    log(LogLevel::debug, "p2p", "{} makes room for another", victim->remote().short_text());
    victim->close(Error(ErrorKind::overloaded, "the connection made room for another peer's"));
    return connections_count_ < options_.connections_max;
}

Task<void> Swarm::close_idle_loop() {
    for (;;) {
        co_await options_.clock.sleep_for(idle_look_interval);
        const TimePoint now = options_.clock.now();
        for (const ConnectionPtr& one : connections()) {
            // Asked of each, because it notes the use.
            const bool is_idle = now - one->used_at() >= connection_idle_max;
            if (!is_idle || is_needed(one->remote()) || one->is_closed()) continue;
            one->session().go_away();
            one->close_gently(Error(ErrorKind::peer_gone, "nobody used the connection any more"));
        }
    }
}

}  // namespace dedloc::p2p
