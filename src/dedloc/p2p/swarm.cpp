#include "dedloc/p2p/swarm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/swarm_parts.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

namespace {

constexpr Duration accept_pause = 100ms;  // after a failed accept
constexpr Duration goodbye_max = 200ms;   // for the go-aways of close_all()

}  // namespace

Swarm::Swarm(Options options, runtime::Scope& scope) : options_(std::move(options)), scope_(scope) {
    limit_memory();
}

Swarm::~Swarm() = default;

// ----------------------------------------------------------------------------------- listening

Ok Swarm::listen(const std::vector<std::string>& multiaddrs) {
    // All or none: a host that cannot be made has started nothing.
    std::vector<std::shared_ptr<runtime::Listener>> opened;
    for (const std::string& text : multiaddrs) {
        DEDLOC_TRY(const wire::Multiaddr address, wire::Multiaddr::from_text(text));
        if (!address.is_plain_tcp())
            return make_error(ErrorKind::bad_input,
                              "cannot listen on \"{}\"; give an address like "
                              "/ip4/0.0.0.0/tcp/4001",
                              text);
        const runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
        DEDLOC_TRY(std::unique_ptr<runtime::Listener> listener, options_.network.listen(socket));
        opened.push_back(std::move(listener));
    }
    for (const auto& listener : opened) {
        listeners_.push_back(listener);
        scope_.spawn("p2p accept", accept_loop(listener));
    }
    scope_.spawn("p2p idle", close_idle_loop());
    return {};
}

std::vector<runtime::SocketAddress> Swarm::listen_addresses() const {
    std::vector<runtime::SocketAddress> addresses;
    for (const auto& listener : listeners_) addresses.push_back(listener->local());
    return addresses;
}

Task<void> Swarm::accept_loop(std::shared_ptr<runtime::Listener> listener) {
    for (;;) {
        auto accepted = co_await listener->accept();
        if (closing_) co_return;
        if (!accepted) {
            const ErrorKind kind = accepted.error().kind();
            if (kind == ErrorKind::cancelled) co_return;
            log(LogLevel::warning, "p2p", "{}", accepted.error().message());
            // It gives its descriptor to who is at the door.
            if (kind == ErrorKind::overloaded) let_least_missed_go();
            co_await options_.clock.sleep_for(accept_pause);
            continue;
        }
        // Strangers beyond the limits are hung up on: no answer costs us least.
        SeatPtr seat = seat_for((*accepted)->remote().host);
        if (!seat) continue;
        const std::uint64_t number = seat->number();
        const PunchPtr punch = punch_that_expects((*accepted)->remote());
        auto handshake = punch ? punch_accepted(punch, *std::move(accepted), std::move(seat))
                               : take_inbound(*std::move(accepted), std::move(seat));
        start_handshake(punch ? "p2p punch" : "p2p inbound", number, std::move(handshake));
    }
}

// Null: there is no room, and nobody can be asked to go.
Swarm::SeatPtr Swarm::seat_for(const std::string& ip) {
    if (strangers_.size() >= transport::handshakes_inbound_max) {
        const auto task = strangers_.unseat_one_for(ip, options_.clock.now());
        if (!task) return nullptr;
        scope_.cancel_task(*task);
    }
    return strangers_.sit(ip);
}

void Swarm::start_handshake(std::string name, std::uint64_t seat, Task<void> handshake) {
    strangers_.belongs_to(seat, scope_.spawn(std::move(name), std::move(handshake)));
}

Task<void> Swarm::take_inbound(std::unique_ptr<runtime::Connection> raw, SeatPtr seat) {
    const std::string from = raw->remote().text();
    std::string address = raw->remote().host;
    co_await wait_at_the_door(std::move(address));
    auto secured =
        co_await transport::upgrade_accepted(std::move(raw), options_.upgrades, options_.clock);
    if (!secured) {
        log(LogLevel::debug, "p2p", "inbound from {}: {}", from, secured.error().message());
        co_return;
    }
    if (secured->lane) {
        // It keeps its seat while it waits for its siblings: nobody has shown who it is.
        co_await take_lane(*std::move(secured));
        co_return;
    }
    seat.reset();
    Origin origin;
    if (is_stranger(secured->remote)) make_room_for_stranger(secured->raw->remote().host);
    (void)add(*std::move(secured), std::move(origin));
}

// ------------------------------------------------------------------------------------- dialling

Task<Result<Swarm::Reached>> Swarm::reach(wire::Multiaddr address,
                                          PeerId expected,
                                          TimePoint deadline) {
    auto reaching = address.is_relayed() ? reach_relayed(address, expected, deadline)
                                         : reach_plain(address, expected, deadline);
    auto reached = co_await std::move(reaching);
    if (reached && reached->secured.remote == options_.identity.id())
        co_return make_error(ErrorKind::bad_input, "{} is our own address", address.text());
    co_return reached;
}

Task<Result<Swarm::Reached>> Swarm::reach_plain(wire::Multiaddr address,
                                                PeerId expected,
                                                TimePoint deadline) {
    const runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
    std::uint16_t port = 0;
    if (options_.from_listen_port && options_.from_listen_port(socket.host))
        port = listen_port_for(socket);
    transport::Opening opening = transport::Opening::guess;
    // At most three tries: each of the two choices is given up once.
    for (;;) {
        auto connecting = port != 0 ? options_.network.connect_from(port, socket, deadline)
                                    : options_.network.connect(socket, deadline);
        auto raw = co_await std::move(connecting);
        if (!raw && port != 0 && raw.error().kind() == ErrorKind::local_fault) {
            port = 0;
            continue;
        }
        if (!raw) co_return std::move(raw).error();
        auto secured = co_await transport::upgrade_dialled(
            *std::move(raw), options_.upgrades, expected, options_.clock, opening);
        if (secured) {
            Reached reached;
            reached.secured = *std::move(secured);
            reached.origin.from_listen_port = port != 0;
            co_return reached;
        }
        const ErrorKind kind = secured.error().kind();
        if (kind == ErrorKind::unsupported && opening == transport::Opening::guess &&
            options_.upgrades->settings.protocols.size() > 1) {
            // The guess was wrong: ask what the peer speaks. A round trip and a connection more.
            opening = transport::Opening::ask;
        } else if (port != 0 && kind != ErrorKind::conflict && kind != ErrorKind::timeout) {
            // Two that dial each other from their listen ports at once get one connection with two
            // clients.
            port = 0;
        } else {
            co_return std::move(secured).error();
        }
    }
}

void Swarm::forget_backoff(const PeerId& peer) { backoffs_.erase(peer); }

Result<Swarm::DialPtr> Swarm::start_dial(const PeerId& peer) {
    const auto running = dials_.find(peer);
    if (running != dials_.end()) return running->second;
    const TimePoint now = options_.clock.now();
    const auto backoff = backoffs_.find(peer);
    if (backoff != backoffs_.end() && now < backoff->second.until) return backoff->second.last;
    const auto& addresses = addresses_.of(peer);
    if (addresses.empty())
        return make_error(
            ErrorKind::peer_gone, "no address of peer {} is known", peer.short_text());
    if (dials_.size() >= dials_max)
        return make_error(ErrorKind::overloaded, "already dialling {} peers", dials_.size());
    auto dial = std::make_shared<Dial>(peer, addresses, options_.executor);
    std::stable_partition(dial->addresses.begin(), dial->addresses.end(), [](const auto& address) {
        return !address.is_relayed();
    });
    dial->started = now;
    dials_.emplace(peer, dial);
    for (std::size_t i = 0; i < addresses.size(); ++i)
        dial->tasks.push_back(scope_.spawn("p2p dial", attempt(dial, i)));
    return dial;
}

void Swarm::extend_dial(const PeerId& peer) {
    const auto running = dials_.find(peer);
    if (running == dials_.end()) return;
    const DialPtr dial = running->second;
    for (const auto& address : addresses_.of(peer)) {
        auto& known = dial->addresses;
        if (known.size() >= 2 * addresses_per_peer_max) return;
        if (std::find(known.begin(), known.end(), address) != known.end()) continue;
        known.push_back(address);
        dial->tasks.push_back(scope_.spawn("p2p dial", attempt(dial, known.size() - 1)));
    }
}

Task<void> Swarm::attempt(DialPtr dial, std::size_t index) {
    runtime::Clock& clock = options_.clock;
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
    auto added = add(std::move(reached->secured), std::move(reached->origin));
    finish_dial(dial, added ? Ok() : Ok(added.error()), address.is_relayed());
}

void Swarm::attempt_failed(const DialPtr& dial, std::size_t index, const Error& error) {
    ++dial->failed;
    if (!dial->failures.empty()) dial->failures += "; ";
    dial->failures += dial->addresses[index].text() + ": " + error.message();
    dial->next.set();
    if (dial->failed < dial->addresses.size()) return;
    finish_dial(dial,
                make_error(ErrorKind::peer_gone,
                           "peer {} cannot be reached ({})",
                           dial->peer.short_text(),
                           dial->failures));
}

void Swarm::finish_dial(const DialPtr& dial, Ok outcome, bool by_relay) {
    if (dial->outcome) return;
    dial->outcome = outcome;
    dial->by_relay = by_relay && outcome.has_value();
    dials_.erase(dial->peer);
    if ((!outcome || by_relay) && !closing_ && on_not_reached) on_not_reached(dial->peer);
    if (outcome) {
        backoffs_.erase(dial->peer);
    } else {
        if (backoffs_.size() >= address_book_peers_max) backoffs_.erase(backoffs_.begin());
        Backoff& backoff = backoffs_[dial->peer];
        backoff.wait = std::clamp(2 * backoff.wait, dial_backoff_min, dial_backoff_max);
        backoff.until = options_.clock.now() + backoff.wait;
        backoff.last = outcome.error();
    }
    dial->done.set();
    dial->next.set();
    // The others are not needed any more. (The one that calls this has nothing left to await.)
    for (std::size_t i = 0; i < dial->tasks.size(); ++i)
        if (!dial->by_relay || dial->addresses[i].is_relayed()) scope_.cancel_task(dial->tasks[i]);
}

Task<Result<void>> Swarm::connect(PeerId peer, TimePoint deadline) {
    if (peer == options_.identity.id())
        co_return Error(ErrorKind::bad_input, "a peer does not connect to itself");
    if (best(peer)) co_return Ok();
    if (closing_) co_return Error(ErrorKind::peer_gone, "this host is stopping");
    auto dial = start_dial(peer);
    if (!dial) co_return std::move(dial).error();
    const DialPtr waited = *std::move(dial);
    const bool ended = co_await waited->done.wait_until(options_.clock, deadline);
    // Perhaps it was the peer who reached us.
    if (best(peer)) co_return Ok();
    if (!ended)
        co_return make_error(
            ErrorKind::timeout, "peer {} was not reached in time", peer.short_text());
    if (waited->outcome && !*waited->outcome) co_return waited->outcome->error();
    co_return make_error(
        ErrorKind::peer_gone, "peer {} closed the connection at once", peer.short_text());
}

Task<Result<PeerId>> Swarm::dial(wire::Multiaddr address, TimePoint deadline) {
    if (const auto peer = address.peer()) {
        addresses_.add(*peer, std::vector<wire::Multiaddr>(1, address));
        forget_backoff(*peer);
        auto connected = co_await connect(*peer, deadline);
        if (!connected) co_return std::move(connected).error();
        co_return *peer;
    }
    const std::string what = "dialling " + address.text();
    auto task = dial_unknown(address, deadline);
    auto peer = co_await runtime::with_deadline(options_.clock, deadline, what, std::move(task));
    co_return peer;
}

Task<Result<PeerId>> Swarm::dial_unknown(wire::Multiaddr address, TimePoint deadline) {
    if (closing_) co_return Error(ErrorKind::peer_gone, "this host is stopping");
    PeerId anyone;
    auto reached = co_await reach(address, anyone, deadline);
    if (!reached) co_return std::move(reached).error();
    const PeerId peer = reached->secured.remote;
    addresses_.worked(peer, address);
    auto added = add(std::move(reached->secured), std::move(reached->origin));
    if (!added) co_return std::move(added).error();
    co_return peer;
}

Task<Result<std::unique_ptr<transport::Stream>>> Swarm::open_stream(PeerId peer,
                                                                    TimePoint deadline,
                                                                    bool is_bulk) {
    // A connection may be lost between finding and using it: that costs one more dial, not a call.
    for (int tries = 0;; ++tries) {
        auto connected = co_await connect(peer, deadline);
        if (!connected) co_return std::move(connected).error();
        const ConnectionPtr lanes = is_bulk ? bulk(peer) : nullptr;
        const ConnectionPtr connection = lanes ? lanes : best(peer);
        if (!connection) continue;
        auto stream = co_await connection->open_stream(deadline);
        if (stream || stream.error().kind() != ErrorKind::peer_gone || tries >= 2) co_return stream;
    }
}

// ---------------------------------------------------------------------------------- connections

Swarm::ConnectionPtr Swarm::make_connection(transport::SecureConnection secured, Origin origin) {
    PeerConnection::Settings settings{
        .executor = options_.executor,
        .clock = options_.clock,
        .memory = stream_memory_,
        .keep_alive_interval = options_.keep_alive_interval,
        .keep_alive_answer_max = options_.keep_alive_answer_max,
        .origin = std::move(origin),
        .is_needed = [this, peer = secured.remote] { return is_needed(peer); },
        .strangers_turn = nullptr,
        .spend = nullptr};
    if (options_.limits_strangers) {
        settings.strangers_turn = [this](PeerId peer) { return strangers_turn(std::move(peer)); };
        settings.spend = [this](const PeerId& peer, const StrangerBudget::Cost& cost) {
            spend(peer, cost);
        };
    }
    auto connection = std::make_shared<PeerConnection>(std::move(secured), std::move(settings));
    const std::weak_ptr<PeerConnection> weak = connection;
    connection->on_inbound = [this, weak](std::shared_ptr<transport::YamuxStream> stream) {
        const ConnectionPtr alive = weak.lock();
        if (alive && on_stream)
            on_stream(alive, std::move(stream));
        else
            stream->reset();
    };
    connection->on_busy = [this, weak] {
        if (const ConnectionPtr alive = weak.lock()) consider_lanes(alive);
    };
    return connection;
}

Result<Swarm::ConnectionPtr> Swarm::add(transport::SecureConnection secured, Origin origin) {
    const PeerId peer = secured.remote;
    if (closing_) return Error(ErrorKind::peer_gone, "this host is stopping");
    const auto twins_now = [&] {
        const auto known = peers_.find(peer);
        return known == peers_.end() ? std::size_t{0} : known->second.size();
    };
    if (twins_now() >= connections_per_peer_max || !make_room_for(1))
        return Error(ErrorKind::overloaded, "this host has too many connections");
    const std::size_t twins = twins_now();  // one of them may have made room
    const ConnectionPtr connection = make_connection(std::move(secured), std::move(origin));
    PeerConnection* const raw = connection.get();
    connection->on_closed = [this, raw](const Error&) { remove(raw); };
    peers_[peer].push_back(connection);
    ++connections_count_;
    backoffs_.erase(peer);
    connection->start(scope_);
    // Whoever waits for a dial to this peer need not wait any longer.
    if (const auto dial = dials_.find(peer); dial != dials_.end()) dial->second->done.set();
    if (twins > 0) settle_duplicates(peer);
    if (on_connection) on_connection(connection);
    if (twins == 0 && on_peer) on_peer(peer, true);
    return connection;
}

void Swarm::remove(const PeerConnection* connection) {
    const PeerId peer = connection->remote();
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    auto& twins = found->second;
    const auto gone =
        std::erase_if(twins, [&](const auto& one) { return one.get() == connection; });
    connections_count_ -= gone;
    if (gone > 0 && is_stranger(peer)) ++strangers_gone_;
    if (gone == 0 || !twins.empty()) return;
    peers_.erase(found);
    vouched_for_.erase(peer);
    close_bundles(peer, Error(ErrorKind::peer_gone, "the connection to the peer was lost"));
    if (on_peer) on_peer(peer, false);
}

bool Swarm::is_preferred(const PeerConnection& a, const PeerConnection& b) const {
    if (a.is_relayed() != b.is_relayed()) return b.is_relayed();
    if (a.is_dialler() == b.is_dialler()) return a.opened_at() >= b.opened_at();
    const bool we_are_smaller = options_.identity.id() < a.remote();
    return a.is_dialler() == we_are_smaller;
}

Swarm::ConnectionPtr Swarm::best(const PeerId& peer) const { return choose(peer, false); }

Swarm::ConnectionPtr Swarm::direct(const PeerId& peer) const { return choose(peer, true); }

Swarm::ConnectionPtr Swarm::choose(const PeerId& peer, bool direct_only) const {
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

void Swarm::settle_duplicates(const PeerId& peer) {
    auto& twins = peers_[peer];
    ConnectionPtr winner;
    for (const auto& one : twins)
        if (one->is_usable() && (!winner || is_preferred(*one, *winner))) winner = one;
    if (!winner) return;
    winner->probe(duplicate_probe_answer_max);
    for (const auto& one : twins)
        if (one != winner && one->is_usable()) scope_.spawn("p2p drain", drain(one, winner));
}

void Swarm::doubt(const PeerId& peer) {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    for (const auto& one : found->second)
        if (one->is_usable()) one->probe(options_.keep_alive_answer_max);
}

Task<void> Swarm::drain(ConnectionPtr loser, ConnectionPtr winner) {
    runtime::Clock& clock = options_.clock;
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

std::vector<PeerId> Swarm::peers() const {
    std::vector<PeerId> ids;
    for (const auto& [peer, connections] : peers_) ids.push_back(peer);
    return ids;
}

std::vector<Swarm::ConnectionPtr> Swarm::connections() const {
    std::vector<ConnectionPtr> all;
    for (const auto& [peer, twins] : peers_) all.insert(all.end(), twins.begin(), twins.end());
    return all;
}

void Swarm::disconnect(const PeerId& peer, Error reason) {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    const std::vector<ConnectionPtr> twins = found->second;
    for (const auto& one : twins) one->close(reason);
}

Task<void> Swarm::close_all() {
    closing_ = true;
    for (const auto& listener : listeners_) listener->close();
    const Error reason(ErrorKind::peer_gone, "this host was stopped");
    const std::map<PeerId, DialPtr> dials = dials_;
    for (const auto& [peer, dial] : dials) finish_dial(dial, Ok(reason));
    std::vector<ConnectionPtr> all = connections();
    for (const auto& [peer, bundles] : bundles_)
        all.insert(all.end(), bundles.all.begin(), bundles.all.end());
    for (const auto& one : all) {
        one->session().go_away();
        one->close_gently(reason);
    }
    const TimePoint until = options_.clock.now() + goodbye_max;
    while (connections_count_ > 0 && options_.clock.now() < until)
        co_await options_.clock.sleep_for(goodbye_max / 50);
    for (const auto& one : all) one->close(reason);
}

}  // namespace dedloc::p2p
