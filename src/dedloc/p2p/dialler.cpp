#include "dedloc/p2p/dialler.h"

#include <algorithm>
#include <utility>

#include "dedloc/p2p/dialler_dial.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

void Dialler::is_connected(const PeerId& peer) {
    if (const auto dial = dials_.find(peer); dial != dials_.end()) dial->second->done.set();
}

void Dialler::stop(const Error& reason) {
    const std::map<PeerId, DialPtr> dials = dials_;
    for (const auto& [peer, dial] : dials) finish(dial, Ok(reason));
}

void Dialler::forget_backoff(const PeerId& peer) { backoffs_.erase(peer); }

Result<Dialler::DialPtr> Dialler::begin(const PeerId& peer) {
    const auto running = dials_.find(peer);
    if (running != dials_.end()) return running->second;
    const TimePoint now = parts_.now();
    const auto backoff = backoffs_.find(peer);
    if (backoff != backoffs_.end() && now < backoff->second.until) return backoff->second.last;
    const auto& addresses = addresses_.of(peer);
    if (addresses.empty())
        return make_error(
            ErrorKind::peer_gone, "no address of peer {} is known", peer.short_text());
    if (dials_.size() >= dials_max)
        return make_error(ErrorKind::overloaded, "already dialling {} peers", dials_.size());
    auto dial = std::make_shared<Dial>(peer, addresses, parts_.options.executor);
    std::stable_partition(dial->addresses.begin(), dial->addresses.end(), [](const auto& address) {
        return !address.is_relayed();
    });
    dial->started = now;
    dials_.emplace(peer, dial);
    for (std::size_t i = 0; i < addresses.size(); ++i)
        dial->tasks.push_back(parts_.scope.spawn("p2p dial", attempt(dial, i)));
    return dial;
}

void Dialler::extend(const PeerId& peer) {
    const auto running = dials_.find(peer);
    if (running == dials_.end()) return;
    const DialPtr dial = running->second;
    for (const auto& address : addresses_.of(peer)) {
        auto& known = dial->addresses;
        if (known.size() >= 2 * addresses_per_peer_max) return;
        if (std::find(known.begin(), known.end(), address) != known.end()) continue;
        known.push_back(address);
        dial->tasks.push_back(parts_.scope.spawn("p2p dial", attempt(dial, known.size() - 1)));
    }
}

Task<void> Dialler::attempt(DialPtr dial, std::size_t index) {
    runtime::Clock& clock = parts_.clock();
    const TimePoint start = dial->started + static_cast<std::int64_t>(index) * dial_stagger;
    while (dial->failed < index && clock.now() < start) {
        dial->next.reset();
        co_await dial->next.wait_until(clock, start);
    }
    if (dial->outcome) co_return;
    const wire::Multiaddr address = dial->addresses[index];
    const TimePoint deadline = dial->started + dial_max;
    auto reached = co_await reach(address, dial->peer, deadline);
    const bool late_but_better = dial->by_relay && reached && !address.is_relayed();
    if (dial->outcome && !late_but_better) co_return;
    if (!reached) {
        attempt_failed(dial, index, reached.error());
        co_return;
    }
    addresses_.worked(dial->peer, address);
    auto added = parts_.add(std::move(reached->secured), std::move(reached->origin));
    finish(dial, added ? Ok() : Ok(added.error()), address.is_relayed());
}

void Dialler::attempt_failed(const DialPtr& dial, std::size_t index, const Error& error) {
    ++dial->failed;
    if (!dial->failures.empty()) dial->failures += "; ";
    dial->failures += dial->addresses[index].text() + ": " + error.message();
    dial->next.set();
    if (dial->failed < dial->addresses.size()) return;
    finish(dial,
           make_error(ErrorKind::peer_gone,
                      "peer {} cannot be reached ({})",
                      dial->peer.short_text(),
                      dial->failures));
}

void Dialler::finish(const DialPtr& dial, Ok outcome, bool by_relay) {
    if (dial->outcome) return;
    dial->outcome = outcome;
    dial->by_relay = by_relay && outcome.has_value();
    dials_.erase(dial->peer);
    if ((!outcome || by_relay) && !parts_.closing && on_not_reached) on_not_reached(dial->peer);
    if (outcome) {
        backoffs_.erase(dial->peer);
    } else {
        if (backoffs_.size() >= address_book_peers_max) backoffs_.erase(backoffs_.begin());
        Backoff& backoff = backoffs_[dial->peer];
        backoff.wait = std::clamp(2 * backoff.wait, dial_backoff_min, dial_backoff_max);
        backoff.until = parts_.now() + backoff.wait;
        backoff.last = outcome.error();
    }
    dial->done.set();
    dial->next.set();
    // The others are not needed any more. (The one that calls this has nothing left to await.)
    for (std::size_t i = 0; i < dial->tasks.size(); ++i)
        if (!dial->by_relay || dial->addresses[i].is_relayed())
            parts_.scope.cancel_task(dial->tasks[i]);
}

Task<Result<void>> Dialler::connect(PeerId peer, TimePoint deadline) {
    if (peer == parts_.options.identity.id())
        co_return Error(ErrorKind::bad_input, "a peer does not connect to itself");
    if (table_.best(peer)) co_return Ok();
    if (parts_.closing) co_return Error(ErrorKind::peer_gone, "this host is stopping");
    auto dial = begin(peer);
    if (!dial) co_return std::move(dial).error();
    const DialPtr waited = *std::move(dial);
    const bool ended = co_await waited->done.wait_until(parts_.clock(), deadline);
    // Perhaps it was the peer who reached us.
    if (table_.best(peer)) co_return Ok();
    if (!ended)
        co_return make_error(
            ErrorKind::timeout, "peer {} was not reached in time", peer.short_text());
    if (waited->outcome && !*waited->outcome) co_return waited->outcome->error();
    co_return make_error(
        ErrorKind::peer_gone, "peer {} closed the connection at once", peer.short_text());
}

Task<Result<PeerId>> Dialler::dial(wire::Multiaddr address, TimePoint deadline) {
    if (const auto peer = address.peer()) {
        addresses_.add(*peer, std::vector<wire::Multiaddr>(1, address));
        forget_backoff(*peer);
        auto connected = co_await connect(*peer, deadline);
        if (!connected) co_return std::move(connected).error();
        co_return *peer;
    }
    const std::string what = "dialling " + address.text();
    auto task = dial_unknown(address, deadline);
    auto peer = co_await runtime::with_deadline(parts_.clock(), deadline, what, std::move(task));
    co_return peer;
}

Task<Result<PeerId>> Dialler::dial_unknown(wire::Multiaddr address, TimePoint deadline) {
    if (parts_.closing) co_return Error(ErrorKind::peer_gone, "this host is stopping");
    PeerId anyone;
    auto reached = co_await reach(address, anyone, deadline);
    if (!reached) co_return std::move(reached).error();
    const PeerId peer = reached->secured.remote;
    addresses_.worked(peer, address);
    auto added = parts_.add(std::move(reached->secured), std::move(reached->origin));
    if (!added) co_return std::move(added).error();
    co_return peer;
}

// ------------------------------------------------------------------------------------ relays, NATs

Task<Result<void>> Dialler::dial_direct(PeerId peer,
                                        std::vector<wire::Multiaddr> addresses,
                                        Path path,
                                        TimePoint deadline) {
    if (table_.direct(peer)) co_return Ok();
    if (addresses.empty()) co_return Error(ErrorKind::not_found, "no address to dial directly");
    if (addresses.size() > addresses_per_peer_max) addresses.resize(addresses_per_peer_max);
    auto dial = std::make_shared<Dial>(peer, std::move(addresses), parts_.options.executor);
    for (const auto& address : dial->addresses)
        dial->tasks.push_back(
            parts_.scope.spawn("p2p dial back", dial_one(dial, address, path, deadline)));
    (void)co_await dial->done.wait_until(parts_.clock(), deadline);
    if (table_.direct(peer)) co_return Ok();
    co_return make_error(
        ErrorKind::peer_gone, "peer {} cannot be dialled directly", peer.short_text());
}

Task<void> Dialler::dial_one(DialPtr dial, wire::Multiaddr address, Path path, TimePoint deadline) {
    auto reached = co_await reach_plain(address, dial->peer, deadline);
    if (reached) {
        reached->origin.path = path;
        (void)parts_.add(std::move(reached->secured), std::move(reached->origin));
        dial->done.set();
    } else if (++dial->failed == dial->addresses.size()) {
        dial->done.set();
    }
}

namespace {

Task<Result<void>> knock_as_stranger(runtime::Network& network,
                                     runtime::Clock& clock,
                                     std::shared_ptr<const transport::UpgradeContext> stranger,
                                     runtime::SocketAddress socket,
                                     PeerId peer,
                                     TimePoint deadline) {
    auto raw = co_await network.connect(socket, deadline);
    if (!raw) co_return std::move(raw).error();
    auto secured = co_await transport::upgrade_dialled(
        *std::move(raw), std::move(stranger), peer, clock, transport::Opening::ask);
    if (!secured) co_return std::move(secured).error();
    co_return Ok();
}

}  // namespace

Task<Result<void>> Dialler::dial_back(wire::Multiaddr address, PeerId peer, TimePoint deadline) {
    // Under an id of its own: else the peer would take it for a second connection of ours.
    auto stranger = transport::UpgradeContext::make(security::Identity::generate(),
                                                    parts_.options.upgrades->settings);
    if (!stranger) co_return std::move(stranger).error();
    runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
    const std::string what = "dialling back to " + address.text();
    auto task = knock_as_stranger(parts_.options.network,
                                  parts_.clock(),
                                  *std::move(stranger),
                                  std::move(socket),
                                  std::move(peer),
                                  deadline);
    auto reached = co_await runtime::with_deadline(parts_.clock(), deadline, what, std::move(task));
    co_return reached;
}

}  // namespace dedloc::p2p
