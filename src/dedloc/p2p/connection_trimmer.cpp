// The part of Swarm that decides which connections may go: those that nobody uses any more, and,
// when the house is full, the one that is missed least. Never one to a protected peer, to a relay
// at which we have a place, or to a peer that has its place here.

#include <algorithm>
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

// When there was last a stream to the peer on that connection, or on lanes beside it, which end
// with it. Whoever asks now and then learns of short ones, too.
TimePoint Swarm::last_use(PeerConnection& connection) const {
    TimePoint last = connection.used_at();
    if (const auto found = bundles_.find(connection.remote()); found != bundles_.end())
        for (const ConnectionPtr& bundle : found->second.all)
            last = std::max(last, bundle->used_at());
    return last;
}

// Those that nobody needs and that nobody used for so long, the longest unused first. (One that is
// in use was used now.)
std::vector<Swarm::ConnectionPtr> Swarm::dispensable(Duration unused_for) const {
    const TimePoint now = options_.clock.now();
    std::vector<std::pair<TimePoint, ConnectionPtr>> by_use;
    for (const auto& [peer, twins] : peers_) {
        if (is_needed(peer)) continue;
        for (const ConnectionPtr& one : twins) {
            const TimePoint used = last_use(*one);
            if (now - used >= unused_for) by_use.emplace_back(used, one);
        }
    }
    std::stable_sort(by_use.begin(), by_use.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
    });
    std::vector<ConnectionPtr> all;
    for (auto& [used, one] : by_use) all.push_back(std::move(one));
    return all;
}

void Swarm::let_go(const ConnectionPtr& one) {
    log(LogLevel::debug, "p2p", "{} makes room for another", one->remote().short_text());
    one->close(Error(ErrorKind::overloaded, "the connection made room for another peer's"));
}

void Swarm::let_least_missed_go() {
    const auto going = dispensable(Duration(0));
    if (!going.empty()) let_go(going.front());
}

bool Swarm::make_room_for(std::size_t connections, Duration unused_for) {
    const auto missing = [&] {
        const std::size_t wanted = connections_count_ + connections;
        return wanted - std::min(wanted, options_.connections_max);
    };
    if (missing() == 0) return true;
    const auto going = dispensable(unused_for);
    if (going.size() < missing()) return false;
    for (const ConnectionPtr& one : going)
        if (missing() > 0) let_go(one);
    return missing() == 0;
}

Task<void> Swarm::close_idle_loop() {
    for (;;) {
        co_await options_.clock.sleep_for(idle_look_interval);
        give_back_memory();
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
