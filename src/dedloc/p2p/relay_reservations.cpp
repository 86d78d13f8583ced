#include "dedloc/p2p/relay_reservations.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/ip_family.h"

namespace dedloc::p2p {

namespace {

constexpr Duration refused_min = 5s;
constexpr Duration refused_max = std::chrono::minutes(5);
constexpr Duration ask_max = 10s;
// A peer that has just become a member here may not be one there yet.
constexpr Duration soon = 250ms;

}  // namespace

RelayReservations::RelayReservations(Surroundings surroundings)
    : around_(std::move(surroundings)), news_(around_.executor) {}

void RelayReservations::add_candidate(const PeerId& peer) {
    if (const auto held = held_.find(peer); held != held_.end()) held->second.is_retired = false;
    if (candidates_.size() >= connections_max) return;
    if (candidates_.emplace(peer, Candidate{}).second) news_.set();
}

void RelayReservations::ask_soon(const PeerId& peer) {
    const auto candidate = candidates_.find(peer);
    if (candidate == candidates_.end() || held_.contains(peer)) return;
    candidate->second.wait = Duration(0);
    candidate->second.not_before = around_.clock.now() + soon;
    news_.set();
}

void RelayReservations::forget(const PeerId& peer) {
    candidates_.erase(peer);
    drop(peer);
    news_.set();
}

void RelayReservations::retire(const PeerId& peer) {
    const auto held = held_.find(peer);
    if (held == held_.end()) {
        candidates_.erase(peer);
        return;
    }
    held->second.is_retired = true;
    news_.set();
}

void RelayReservations::drop(const PeerId& relay) {
    const auto held = held_.find(relay);
    if (held == held_.end()) return;
    if (held->second.is_retired) candidates_.erase(relay);
    held_.erase(held);
    around_.on_change();
}

void RelayReservations::drop_replaced() {
    if (held_.size() <= relays_used_max) return;
    const auto retired =
        std::ranges::find_if(held_, [](const auto& one) { return one.second.is_retired; });
    if (retired != held_.end()) drop(PeerId(retired->first));
}

std::vector<RelayUse> RelayReservations::uses() const {
    std::vector<RelayUse> uses;
    for (const auto& [relay, held] : held_) {
        RelayUse use{.relay = relay, .addresses = {}};
        for (const auto& address : held.addresses) use.addresses.push_back(address.text());
        uses.push_back(std::move(use));
    }
    return uses;
}

std::vector<wire::Multiaddr> RelayReservations::addresses() const {
    std::vector<wire::Multiaddr> addresses;
    for (const auto& [relay, held] : held_)
        for (const auto& address : held.addresses)
            addresses.push_back(address.with_peer(relay).circuit_to(around_.me).without_peer());
    return addresses;
}

bool RelayReservations::has_enough() const {
    const auto serving =
        std::ranges::count_if(held_, [](const auto& one) { return !one.second.is_retired; });
    return static_cast<std::size_t>(serving) >= relays_used_max;
}

// The relay to ask now: one that must be renewed, else a candidate while there are too few. One
// that we have dialled can be dialled for sure; who came to us perhaps only thinks so.
std::optional<PeerId> RelayReservations::next_due() const {
    const TimePoint now = around_.clock.now();
    for (const auto& [relay, held] : held_)
        if (held.renew_at <= now) return relay;
    if (has_enough()) return std::nullopt;
    std::optional<PeerId> due;
    for (const auto& [peer, candidate] : candidates_) {
        if (held_.contains(peer) || candidate.not_before > now) continue;
        const ConnectionPtr connection = around_.direct_connection(peer);
        if (connection && connection->is_dialler()) return peer;
        if (!due) due = peer;
    }
    return due;
}

TimePoint RelayReservations::next_time() const {
    TimePoint next = TimePoint::never();
    for (const auto& [relay, held] : held_) next = std::min(next, held.renew_at);
    if (has_enough()) return next;
    for (const auto& [peer, candidate] : candidates_)
        if (!held_.contains(peer)) next = std::min(next, candidate.not_before);
    return next;
}

Task<void> RelayReservations::run() {
    for (;;) {
        news_.reset();
        if (!around_.is_needed()) {
            while (!held_.empty()) drop(PeerId(held_.begin()->first));
            co_await news_.wait();
            continue;
        }
        if (const auto relay = next_due()) {
            co_await take(*relay);
            continue;
        }
        const TimePoint next = next_time();
        (void)co_await news_.wait_until(around_.clock, next);
    }
}

Task<void> RelayReservations::take(PeerId relay) {
    const TimePoint asked = around_.clock.now();
    const ConnectionPtr connection = around_.direct_connection(relay);
    Result<Reservation> taken = Error(ErrorKind::peer_gone, "the relay is not connected");
    if (connection) {
        const TimePoint deadline = asked + ask_max;
        const WallSeconds wall = around_.clock.wall_now();
        taken = co_await reserve(connection, around_.me, wall, deadline);
    }
    const auto candidate = candidates_.find(relay);
    if (candidate == candidates_.end()) co_return;  // it went meanwhile
    Candidate& entry = candidate->second;
    auto addresses = taken ? addresses_of(*connection, *taken) : std::vector<wire::Multiaddr>();
    if (!addresses.empty()) {
        entry = Candidate{};
        const bool is_news = !held_.contains(relay) || held_[relay].addresses != addresses;
        held_[relay] = {.renew_at = asked + taken->life * 2 / 3,
                        .until = asked + taken->life,
                        .addresses = std::move(addresses)};
        if (is_news) around_.on_change();
        drop_replaced();
        co_return;
    }
    log(LogLevel::debug,
        "p2p",
        "no reservation at {}: {}",
        relay.short_text(),
        taken ? std::string("it has no address") : taken.error().message());
    entry.wait = std::clamp(2 * entry.wait, refused_min, refused_max);
    entry.not_before = around_.clock.now() + entry.wait;
    // A reservation that could not be renewed holds until its end; then it goes.
    const auto held = held_.find(relay);
    if (held == held_.end()) co_return;
    if (held->second.until <= entry.not_before)
        drop(relay);
    else
        held->second.renew_at = entry.not_before;
}

// By which address we reached it comes first: that one is sure to work.
std::vector<wire::Multiaddr> RelayReservations::addresses_of(const PeerConnection& connection,
                                                             const Reservation& reservation) const {
    std::vector<wire::Multiaddr> chosen;
    const auto add = [&chosen](const wire::Multiaddr& address) {
        const bool is_v6 = is_ip6(address.host().value_or(""));
        const auto alike = std::ranges::count_if(chosen, [is_v6](const wire::Multiaddr& one) {
            return is_ip6(one.host().value_or("")) == is_v6;
        });
        if (chosen.size() >= addresses_per_relay_max ||
            static_cast<std::size_t>(alike) >= addresses_per_relay_and_family_max)
            return;
        if (std::ranges::find(chosen, address) == chosen.end()) chosen.push_back(address);
    };
    const auto socket = connection.remote_address();
    if (connection.is_dialler())
        if (const auto dialled = wire::Multiaddr::tcp(socket.host, socket.port)) add(*dialled);
    for (const auto& address : reservation.addresses)
        if (around_.is_public(address.host().value_or(""))) add(address);
    return chosen;
}

}  // namespace dedloc::p2p
