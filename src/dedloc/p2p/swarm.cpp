#include "dedloc/p2p/swarm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

namespace {

constexpr Duration accept_pause = 100ms;  // after a failed accept: out of descriptors
constexpr Duration goodbye_max = 200ms;   // for the go-aways of close_all()

// Counts something for as long as it lives, whatever ends the task.
class Counted {
  public:
    explicit Counted(std::size_t& counter) : counter_(counter) { ++counter_; }
    ~Counted() { --counter_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

  private:
    std::size_t& counter_;
};

}  // namespace

struct Swarm::Dial {
    Dial(PeerId to, std::vector<wire::Multiaddr> by, runtime::Executor executor)
        : peer(std::move(to)), addresses(std::move(by)), done(executor), next(executor) {}

    PeerId peer;
    std::vector<wire::Multiaddr> addresses;
    TimePoint started;
    runtime::Event done;
    runtime::Event next;  // an attempt has failed: the next one need not wait
    std::size_t failed = 0;
    std::string failures;  // for people
    std::optional<Ok> outcome;
    std::vector<runtime::TaskId> tasks;
};

Swarm::Swarm(Options options, runtime::Scope& scope)
    : options_(std::move(options)),
      scope_(scope),
      tls_(security::TlsContext::make(options_.identity)) {}

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
            if (accepted.error().kind() == ErrorKind::cancelled) co_return;
            log(LogLevel::warning, "p2p", "{}", accepted.error().message());
            co_await options_.clock.sleep_for(accept_pause);
            continue;
        }
        // Strangers beyond the limits are hung up on: no answer costs us least.
        if (handshakes_inbound_ >= handshakes_inbound_max || connections_count_ >= connections_max)
            continue;
        scope_.spawn("p2p inbound", take_inbound(*std::move(accepted)));
    }
}

Task<void> Swarm::take_inbound(std::unique_ptr<runtime::Connection> raw) {
    const Counted counted(handshakes_inbound_);
    const std::string from = raw->remote().text();
    auto secured = co_await upgrade_accepted(std::move(raw), tls_, options_.clock);
    if (!secured) {
        log(LogLevel::debug, "p2p", "inbound from {}: {}", from, secured.error().message());
        co_return;
    }
    (void)add(*std::move(secured));
}

// ------------------------------------------------------------------------------------- dialling

Task<Result<SecureConnection>> Swarm::reach(wire::Multiaddr address,
                                            PeerId expected,
                                            TimePoint deadline) {
    const runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
    auto raw = co_await options_.network.connect(socket, deadline);
    if (!raw) co_return std::move(raw).error();
    auto secured = co_await upgrade_dialled(*std::move(raw), tls_, expected, options_.clock);
    if (secured && secured->remote == options_.identity.id())
        co_return make_error(ErrorKind::bad_input, "{} is our own address", address.text());
    co_return secured;
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
    dial->started = now;
    dials_.emplace(peer, dial);
    for (std::size_t i = 0; i < addresses.size(); ++i)
        dial->tasks.push_back(scope_.spawn("p2p dial", attempt(dial, i)));
    return dial;
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
    auto secured = co_await reach(address, dial->peer, deadline);
    if (dial->outcome) co_return;
    if (!secured) {
        attempt_failed(dial, index, secured.error());
        co_return;
    }
    addresses_.worked(dial->peer, address);
    auto added = add(*std::move(secured));
    finish_dial(dial, added ? Ok() : Ok(added.error()));
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

void Swarm::finish_dial(const DialPtr& dial, Ok outcome) {
    if (dial->outcome) return;
    dial->outcome = outcome;
    dials_.erase(dial->peer);
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
    for (const runtime::TaskId task : dial->tasks) scope_.cancel_task(task);
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
    auto secured = co_await reach(address, anyone, deadline);
    if (!secured) co_return std::move(secured).error();
    const PeerId peer = secured->remote;
    addresses_.worked(peer, address);
    auto added = add(*std::move(secured));
    if (!added) co_return std::move(added).error();
    co_return peer;
}

Task<Result<std::unique_ptr<Stream>>> Swarm::open_stream(PeerId peer, TimePoint deadline) {
    // A connection may be lost between finding and using it: that costs one more dial, not a call.
    for (int tries = 0;; ++tries) {
        auto connected = co_await connect(peer, deadline);
        if (!connected) co_return std::move(connected).error();
        const ConnectionPtr connection = best(peer);
        if (!connection) continue;
        auto stream = co_await connection->open_stream(deadline);
        if (stream || stream.error().kind() != ErrorKind::peer_gone || tries >= 2) co_return stream;
    }
}

// ---------------------------------------------------------------------------------- connections

Result<Swarm::ConnectionPtr> Swarm::add(SecureConnection secured) {
    const PeerId peer = secured.remote;
    const auto known = peers_.find(peer);
    const std::size_t twins = known == peers_.end() ? 0 : known->second.size();
    if (closing_) return Error(ErrorKind::peer_gone, "this host is stopping");
    if (connections_count_ >= connections_max || twins >= connections_per_peer_max)
        return Error(ErrorKind::overloaded, "this host has too many connections");
    PeerConnection::Settings settings{.executor = options_.executor,
                                      .clock = options_.clock,
                                      .budget = budget_,
                                      .keep_alive_interval = options_.keep_alive_interval,
                                      .keep_alive_answer_max = options_.keep_alive_answer_max};
    auto connection = std::make_shared<PeerConnection>(std::move(secured), std::move(settings));
    PeerConnection* const raw = connection.get();
    const std::weak_ptr<PeerConnection> weak = connection;
    connection->on_inbound = [this, weak](std::shared_ptr<YamuxStream> stream) {
        const ConnectionPtr alive = weak.lock();
        if (alive && on_stream)
            on_stream(alive, std::move(stream));
        else
            stream->reset();
    };
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
    if (gone == 0 || !twins.empty()) return;
    peers_.erase(found);
    if (on_peer) on_peer(peer, false);
}

bool Swarm::is_preferred(const PeerConnection& a, const PeerConnection& b) const {
    if (a.is_dialler() == b.is_dialler()) return a.opened_at() >= b.opened_at();
    const bool we_are_smaller = options_.identity.id() < a.remote();
    return a.is_dialler() == we_are_smaller;
}

Swarm::ConnectionPtr Swarm::best(const PeerId& peer) const {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return nullptr;
    ConnectionPtr preferred;
    ConnectionPtr newest;
    for (const auto& one : found->second) {
        if (!one->is_usable()) continue;
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

Task<void> Swarm::drain(ConnectionPtr loser, ConnectionPtr winner) {
    runtime::Clock& clock = options_.clock;
    const TimePoint begun = clock.now();
    while (winner->session().last_received() <= begun) {
        if (winner->is_closed() || loser->is_closed()) co_return;
        co_await clock.sleep_for(drain_idle / 20);
    }
    loser->session().go_away();
    TimePoint idle_since = clock.now();
    while (!loser->is_closed()) {
        if (loser->session().streams_count() > 0) idle_since = clock.now();
        if (clock.now() - idle_since >= drain_idle) break;
        co_await clock.sleep_for(drain_idle / 4);
    }
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
    const std::vector<ConnectionPtr> all = connections();
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
