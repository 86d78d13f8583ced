#include "dedloc/p2p/connection_table.h"

#include <utility>

namespace dedloc::p2p {

const ConnectionTable::Twins& ConnectionTable::to(const PeerId& peer) const {
    static const Twins none;
    const auto found = peers_.find(peer);
    return found == peers_.end() ? none : found->second;
}

void ConnectionTable::put(ConnectionPtr connection) {
    peers_[connection->remote()].push_back(std::move(connection));
    ++count_;
}

ConnectionTable::Taken ConnectionTable::take_out(const PeerConnection* connection) {
    const auto found = peers_.find(connection->remote());
    if (found == peers_.end()) return Taken::none;
    const auto gone =
        std::erase_if(found->second, [&](const auto& one) { return one.get() == connection; });
    count_ -= gone;
    if (gone == 0) return Taken::none;
    if (!found->second.empty()) return Taken::one_of_several;
    peers_.erase(found);
    return Taken::last;
}

bool ConnectionTable::is_preferred(const PeerConnection& a, const PeerConnection& b) const {
    if (a.is_relayed() != b.is_relayed()) return b.is_relayed();
    if (a.is_dialler() == b.is_dialler()) return a.opened_at() >= b.opened_at();
    const bool we_are_smaller = parts_.options.identity.id() < a.remote();
    return a.is_dialler() == we_are_smaller;
}

ConnectionPtr ConnectionTable::choose(const PeerId& peer, bool direct_only) const {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return nullptr;
    ConnectionPtr preferred;
    ConnectionPtr newest;
    for (const auto& one : found->second) {
        if (!one->is_usable() || (direct_only && one->is_relayed())) continue;
        if (!newest || one->opened_at() >= newest->opened_at()) newest = one;
        if (!preferred || is_preferred(*one, *preferred)) preferred = one;
    }
    if (!preferred || preferred == newest) return preferred;
    // The preferred one may be a leftover of before the peer restarted.
    const bool alive = preferred->session().last_received() >= newest->opened_at();
    return alive ? preferred : newest;
}

void ConnectionTable::settle(const PeerId& peer) {
    auto& twins = peers_[peer];
    ConnectionPtr winner;
    for (const auto& one : twins)
        if (one->is_usable() && (!winner || is_preferred(*one, *winner))) winner = one;
    if (!winner) return;
    winner->probe(duplicate_probe_answer_max);
    for (const auto& one : twins)
        if (one != winner && one->is_usable()) parts_.scope.spawn("p2p drain", drain(one, winner));
}

Task<void> ConnectionTable::drain(ConnectionPtr loser, ConnectionPtr winner) {
    runtime::Clock& clock = parts_.clock();
    const TimePoint begun = clock.now();
    while (winner->session().last_received() <= begun) {
        if (winner->is_closed() || loser->is_closed()) co_return;
        co_await clock.sleep_for(drain_idle / 20);
    }
    TimePoint idle_since = clock.now();
    while (!loser->is_closed()) {
        if (loser->session().streams_count() > 0) idle_since = clock.now();
        if (clock.now() - idle_since >= drain_idle) break;
        co_await clock.sleep_for(drain_idle / 4);
        if (best(loser->remote()) == loser) co_return;  // the winner is gone
    }
    // Not before: at a go-away, go-yamux and js-yamux end all streams that are under way.
    loser->session().go_away();
    do {
        co_await clock.sleep_for(drain_idle / 4);
    } while (!loser->is_closed() && loser->session().streams_count() > 0);
    loser->close(Error(ErrorKind::peer_gone, "another connection to this peer is used instead"));
}

std::vector<PeerId> ConnectionTable::peers() const {
    std::vector<PeerId> ids;
    for (const auto& [peer, connections] : peers_) ids.push_back(peer);
    return ids;
}

std::vector<ConnectionPtr> ConnectionTable::all() const {
    std::vector<ConnectionPtr> all;
    for (const auto& [peer, twins] : peers_) all.insert(all.end(), twins.begin(), twins.end());
    return all;
}

}  // namespace dedloc::p2p
