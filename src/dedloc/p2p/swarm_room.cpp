// The part of Swarm that decides which connections may go: those that nobody uses any more, and,
// when the house is full, the one that is missed least. Never one to a protected peer, to a relay
// at which we have a place, or to a peer that has its place here.

#include <algorithm>

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

// When there was last a stream to the peer on that connection, or on lanes beside it, which end
// with it. Whoever asks now and then learns of short ones, too.
TimePoint Swarm::last_use(PeerConnection& connection) const {
    TimePoint last = connection.used_at();
    if (const auto found = bundles_.find(connection.remote()); found != bundles_.end())
        for (const ConnectionPtr& bundle : found->second.all)
            last = std::max(last, bundle->used_at());
    return last;
}

// Of those nobody needs, the longest unused. (One that is in use was used now.)
Swarm::ConnectionPtr Swarm::least_missed() const {
    ConnectionPtr chosen;
    TimePoint chosen_used;
    for (const auto& [peer, twins] : peers_) {
        if (is_needed(peer)) continue;
        for (const ConnectionPtr& one : twins) {
            const TimePoint used = last_use(*one);
            if (chosen && used >= chosen_used) continue;
            chosen = one;
            chosen_used = used;
        }
    }
    return chosen;
}

bool Swarm::let_least_missed_go() {
    const ConnectionPtr victim = least_missed();
    if (!victim) return false;
    log(LogLevel::debug, "p2p", "{} makes room for another", victim->remote().short_text());
    const std::size_t before = connections_count_;
    victim->close(Error(ErrorKind::overloaded, "the connection made room for another peer's"));
    return connections_count_ < before;
}

bool Swarm::make_room_for(std::size_t connections) {
    while (connections_count_ + connections > options_.connections_max)
        if (!let_least_missed_go()) return false;
    return true;
}

Task<void> Swarm::close_idle_loop() {
    for (;;) {
        co_await options_.clock.sleep_for(idle_look_interval);
        const TimePoint now = options_.clock.now();
        for (const ConnectionPtr& one : connections()) {
            const bool is_idle = now - last_use(*one) >= connection_idle_max;
            if (!is_idle || is_needed(one->remote()) || one->is_closed()) continue;
            one->session().go_away();
            one->close_gently(Error(ErrorKind::peer_gone, "nobody used the connection any more"));
        }
    }
}

}  // namespace dedloc::p2p
