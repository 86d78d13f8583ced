#include "dedloc/sim/sim_host.h"

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/sim/host_wire.h"
#include "dedloc/sim/process.h"

namespace dedloc::sim {

namespace {

constexpr Duration dial_time_max{10'000'000'000};
constexpr Duration dial_retry{1'000'000'000};  // a SYN that got no answer is sent again
constexpr std::size_t known_peers_max = 16384;
constexpr std::size_t addresses_per_peer_max = 16;

struct ParsedAddress {
    std::string ip;
    std::optional<PeerId> peer;
};

Result<ParsedAddress> parse(const std::string& multiaddr) {
    const std::string_view prefix = "/ip4/";
    const std::size_t tcp = multiaddr.find("/tcp/");
    if (!multiaddr.starts_with(prefix) || tcp == std::string::npos)
        return make_error(ErrorKind::bad_input,
                          "\"{}\" is not an address like /ip4/10.0.0.1/tcp/4000",
                          multiaddr);
    ParsedAddress parsed;
    parsed.ip = multiaddr.substr(prefix.size(), tcp - prefix.size());
    const std::string_view p2p = "/p2p/";
    const std::size_t id = multiaddr.find(p2p);
    if (id != std::string::npos) {
        DEDLOC_TRY(parsed.peer, PeerId::from_text(multiaddr.substr(id + p2p.size())));
    }
    return parsed;
}

}  // namespace

// One attempt to reach a peer; all who want to talk to it wait for the same.
struct SimHost::Dial {
    explicit Dial(runtime::Executor executor) : ended(std::move(executor)) {}
    SimNode* target = nullptr;
    TimePoint give_up;
    bool done = false;
    std::optional<Error> error;
    runtime::Event ended;
};

SimHost::SimHost(Process& process)
    : process_(process), world_(process.world), scope_(process.world.executor()) {}

SimHost::~SimHost() = default;

const PeerId& SimHost::id() const { return process_.node.id(); }
runtime::Executor SimHost::executor() const { return world_.executor(); }
runtime::Clock& SimHost::clock() const { return process_.clock; }

std::vector<std::string> SimHost::addresses() const {
    if (!process_.node.options().dialable) return {};
    return {process_.node.address()};
}

void SimHost::add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) {
    if (!addresses_.contains(peer) && addresses_.size() >= known_peers_max)
        addresses_.erase(addresses_.begin());
    auto& known = addresses_[peer];
    for (const std::string& address : addresses) {
        if (std::find(known.begin(), known.end(), address) != known.end()) continue;
        if (known.size() >= addresses_per_peer_max) known.erase(known.begin());
        known.push_back(address);
    }
}

std::vector<std::string> SimHost::addresses_of(const PeerId& peer) const {
    const auto found = addresses_.find(peer);
    return found == addresses_.end() ? std::vector<std::string>() : found->second;
}

bool SimHost::cut_off() const { return stopping_ || !process_.alive; }

Error SimHost::why_cut_off() const {
    return Error(ErrorKind::peer_gone,
                 stopping_ ? "this host was stopped" : "this process was killed");
}

std::shared_ptr<HostWire> SimHost::wire_to(const PeerId& peer) const {
    const auto found = wires_.find(peer);
    return found == wires_.end() ? nullptr : found->second;
}

bool SimHost::is_connected(const PeerId& peer) const { return connected_.contains(peer); }
std::vector<PeerId> SimHost::connected_peers() const {
    return {connected_.begin(), connected_.end()};
}

void SimHost::disconnect(const PeerId& peer) {
    if (cut_off()) return;
    if (auto wire = wire_to(peer)) wire->close(wire->side_of(*this), "closed here");
}

void SimHost::on_connection(std::function<void(const PeerId&, bool)> listener) {
    listeners_.push_back(std::move(listener));
}

std::optional<Duration> SimHost::round_trip(const PeerId& peer) const {
    const auto wire = wire_to(peer);
    if (!wire) return std::nullopt;
    return wire->round_trip();
}

runtime::Traffic SimHost::traffic() const { return process_.node.traffic(); }

bool SimHost::is_stopped() const { return stopping_ && scope_.running() == 0; }

// --- dialling ---

SimNode* SimHost::locate(const PeerId& peer, std::optional<Error>& why) const {
    if (peer == id()) {
        why = Error(ErrorKind::bad_input, "a peer cannot dial itself");
        return nullptr;
    }
    SimNode* found = nullptr;
    if (world_.options().everyone_knows_everyone) {
        found = world_.find(peer);
    } else {
        for (const std::string& address : addresses_of(peer)) {
            const auto parsed = parse(address);
            if (parsed) found = world_.find_address(parsed->ip);
            if (found != nullptr && found->id() == peer) break;
            found = nullptr;
        }
    }
    if (found == nullptr)
        why = make_error(
            ErrorKind::peer_gone, "no address that leads to {} is known", peer.short_text());
    else if (!found->options().dialable)
        why = make_error(ErrorKind::peer_gone,
                         "{} is in client mode: it dials others and cannot be dialled",
                         peer.short_text());
    return why ? nullptr : found;
}

Task<Result<std::shared_ptr<HostWire>>> SimHost::reach(PeerId peer, TimePoint deadline) {
    if (cut_off()) co_return why_cut_off();
    if (auto wire = wire_to(peer)) co_return wire;
    std::shared_ptr<Dial> dial;
    const auto pending = dials_.find(peer);
    if (pending != dials_.end()) {
        dial = pending->second;
    } else {
        std::optional<Error> why;
        SimNode* target = locate(peer, why);
        if (why) co_return *std::move(why);
        dial = std::make_shared<Dial>(world_.executor());
        dial->target = target;
        dials_.emplace(peer, dial);
        start_dial(dial);
    }
    const bool ended = co_await dial->ended.wait_until(process_.clock, deadline);
    if (auto wire = wire_to(peer)) co_return wire;
    if (!ended)
        co_return make_error(ErrorKind::timeout,
                             "connecting to {} took longer than its deadline",
                             peer.short_text());
    if (dial->error) co_return *dial->error;
    co_return make_error(
        ErrorKind::peer_gone, "the connection to {} was lost at once", peer.short_text());
}

// TCP's handshake and TLS's: two round trips, of which the first three legs pass before the other
// process has something to say.
void SimHost::start_dial(std::shared_ptr<Dial> dial) {
    const std::size_t from = process_.node.index();
    const std::size_t to = dial->target->index();
    const Duration weather = process_.node.weather_latency_ + dial->target->weather_latency_;
    const Duration there = world_.pair(from, to).link.latency + weather;
    const Duration back = world_.pair(to, from).link.latency + weather;
    dial->give_up = world_.now() + dial_time_max;
    world_.schedule(dial->give_up, &process_, [this, dial] {
        finish_dial(dial,
                    make_error(ErrorKind::peer_gone,
                               "{} does not answer: it is unreachable or frozen",
                               dial->target->id().short_text()));
    });
    world_.schedule(
        world_.now() + there + back + there, nullptr, [this, dial] { dial_arrives(dial); });
}

// In the network: no process runs here.
void SimHost::dial_arrives(const std::shared_ptr<Dial>& dial) {
    if (dial->done) return;
    const std::size_t from = process_.node.index();
    const std::size_t to = dial->target->index();
    const bool reachable = world_.path_open(from, to) && world_.path_open(to, from) &&
                           dial->target->machine_up_ && process_.alive;
    if (!reachable) {
        if (world_.now() + dial_retry < dial->give_up) {
            world_.schedule(
                world_.now() + dial_retry, nullptr, [this, dial] { dial_arrives(dial); });
        }
        return;
    }
    Process& target = *dial->target->process_;
    if (!target.alive || target.host->stopping_) {
        refuse(dial);
        return;
    }
    // A frozen process leaves it lying there; if it then dies, its machine refuses.
    std::erase_if(target.host->knocking_, [](const auto& old) { return old.second->done; });
    target.host->knocking_.emplace_back(this, dial);
    world_.schedule(world_.now(), &target, [this, dial, &target] {
        if (target.alive) target.host->accept_from(*this, dial);
    });
}

void SimHost::refuse(const std::shared_ptr<Dial>& dial) {
    const Duration back = world_.pair(dial->target->index(), process_.node.index()).link.latency;
    world_.schedule(world_.now() + back, &process_, [this, dial] {
        finish_dial(dial,
                    make_error(ErrorKind::peer_gone,
                               "{} refused the connection: no program listens there",
                               dial->target->id().short_text()));
    });
}

void SimHost::process_died() {
    for (const auto& [dialler, dial] : knocking_)
        if (!dial->done) dialler->refuse(dial);
    knocking_.clear();
}

// In the process that is dialled.
void SimHost::accept_from(SimHost& dialler, const std::shared_ptr<Dial>& dial) {
    std::erase_if(knocking_, [&dial](const auto& each) { return each.second == dial; });
    if (dial->done) return;
    if (stopping_) {
        dialler.refuse(dial);
        return;
    }
    const PeerId& them = dialler.id();
    if (auto old = wire_to(them)) {
        const bool same = &old->process(1 - old->side_of(*this)) == &dialler.process_;
        if (same && old->is_open(1 - old->side_of(*this))) return;  // they have it by now
        // The other side dials because it lost the connection, and we have not heard of that yet.
        old->close(old->side_of(*this), "replaced by a new connection");
    }
    // Both dial each other at once: the connection that the lower id dials stands.
    if (dials_.contains(them) && id() < them) return;
    auto wire = std::make_shared<HostWire>(world_, dialler.process_, process_);
    wire->open(1);
    world_.add_wire(wire);
    const Duration back =
        world_.pair(process_.node.index(), dialler.process_.node.index()).link.latency;
    world_.schedule(world_.now() + back, &dialler.process_, [&dialler, dial, wire] {
        wire->open(0);
        if (dialler.cut_off() || dial->done) {
            wire->close(0, "nobody waits for this connection any more");
            return;
        }
        if (wire->is_open(0)) dialler.add_wire(dial->target->id(), wire);
    });
    add_wire(them, wire);
}

void SimHost::finish_dial(const std::shared_ptr<Dial>& dial, std::optional<Error> error) {
    if (dial->done) return;
    dial->done = true;
    dial->error = std::move(error);
    const auto found = dials_.find(dial->target->id());
    if (found != dials_.end() && found->second == dial) dials_.erase(found);
    dial->ended.set();
}

void SimHost::add_wire(const PeerId& peer, std::shared_ptr<HostWire> wire) {
    if (auto old = wire_to(peer)) old->close(old->side_of(*this), "replaced by a new connection");
    wires_[peer] = std::move(wire);
    connected_.insert(peer);
    const auto dial = dials_.find(peer);
    if (dial != dials_.end()) {
        const std::shared_ptr<Dial> waiting = dial->second;
        finish_dial(waiting, std::nullopt);
    }
    const PeerId who = peer;
    for (std::size_t i = 0; i < listeners_.size(); ++i) listeners_[i](who, true);
}

void SimHost::wire_closed(const PeerId& peer, const HostWire& wire) {
    const auto found = wires_.find(peer);
    if (found == wires_.end() || found->second.get() != &wire) return;
    const PeerId who = peer;
    wires_.erase(found);
    connected_.erase(who);
    for (std::size_t i = 0; i < listeners_.size(); ++i) listeners_[i](who, false);
}

Task<Result<PeerId>> SimHost::dial(std::string multiaddr, TimePoint deadline) {
    DEDLOC_CO_TRY(const ParsedAddress parsed, parse(multiaddr));
    SimNode* target = world_.find_address(parsed.ip);
    if (target == nullptr)
        co_return make_error(ErrorKind::peer_gone, "{} is not a machine of this world", multiaddr);
    if (parsed.peer && *parsed.peer != target->id())
        co_return make_error(ErrorKind::denied,
                             "{} answers as {}, not as the peer that was asked for",
                             multiaddr,
                             target->id().short_text());
    const PeerId peer = target->id();
    std::vector<std::string> addresses(1, target->address());
    add_addresses(peer, addresses);
    auto connected = co_await reach(peer, deadline);
    if (!connected) co_return std::move(connected).error();
    co_return peer;
}

Task<Result<void>> SimHost::connect(PeerId peer, TimePoint deadline) {
    auto connected = co_await reach(std::move(peer), deadline);
    if (!connected) co_return std::move(connected).error();
    co_return Ok();
}

// --- calls and streams ---

Task<Result<Bytes>> SimHost::call(PeerId peer,
                                  std::string method,
                                  Bytes request,
                                  TimePoint deadline) {
    if (request.size() > p2p::call_bytes_max)
        co_return make_error(ErrorKind::bad_input,
                             "a request of {} bytes is larger than the limit of {}",
                             request.size(),
                             p2p::call_bytes_max);
    std::shared_ptr<HostWire> wire;
    if (!cut_off()) wire = wire_to(peer);
    if (!wire) {
        auto reached = co_await reach(peer, deadline);
        if (!reached) co_return std::move(reached).error();
        wire = *std::move(reached);
    }
    struct Guard {
        HostWire& wire;
        PendingCall& pending;
        int side;
        std::uint64_t id;
        ~Guard() { wire.forget_call(side, id, !pending.result || pending.expired); }
    };
    auto pending = std::make_shared<PendingCall>();
    const int side = wire->side_of(*this);
    const std::uint64_t id = wire->next_id();
    const Guard guard{*wire, *pending, side, id};
    wire->start_call(side, id, world_.intern(method), std::move(request), pending);
    PendingCall* waiting = pending.get();
    auto expire = [waiting, &peer, &method] {
        waiting->expired = !waiting->result;
        waiting->complete(make_error(
            ErrorKind::timeout, "{} did not answer {} in time", peer.short_text(), method));
    };
    const runtime::TimerId timer = process_.clock.call_at(deadline, expire);
    const runtime::TimerGuard timer_guard(process_.clock, timer);
    auto start = [waiting](std::shared_ptr<runtime::Parked> parked) {
        waiting->waiter = std::move(parked);
    };
    co_await runtime::park(start);
    co_return *std::move(pending->result);
}

Task<Result<std::unique_ptr<p2p::MessageStream>>> SimHost::open_stream(PeerId peer,
                                                                       std::string method,
                                                                       TimePoint deadline) {
    auto reached = co_await reach(peer, deadline);
    if (!reached) co_return std::move(reached).error();
    const std::shared_ptr<HostWire> wire = *std::move(reached);
    auto end = wire->start_stream(wire->side_of(*this), world_.intern(method));
    auto stream = make_stream(end);  // its destruction resets what was begun
    bool expired = false;
    auto expire = [&expired, &end] {
        expired = true;
        end->wake();
    };
    const runtime::TimerId timer = process_.clock.call_at(deadline, expire);
    const runtime::TimerGuard timer_guard(process_.clock, timer);
    auto start = [&end](std::shared_ptr<runtime::Parked> parked) {
        end->reader = std::move(parked);
    };
    while (!end->ready && !end->broken && !end->they_finished && !expired)
        co_await runtime::park(start);
    if (end->broken) co_return *end->broken;
    if (!end->ready && end->their_error) {
        end->we_finished = true;
        co_return *end->their_error;
    }
    if (!end->ready)
        co_return make_error(
            ErrorKind::timeout, "{} did not open {} in time", peer.short_text(), method);
    co_return stream;
}

void SimHost::handle_call(const std::string& method, p2p::CallHandler handler) {
    auto shared = std::make_shared<p2p::CallHandler>(std::move(handler));
    const bool is_new = call_handlers_.emplace(world_.intern(method), std::move(shared)).second;
    DEDLOC_CHECK(is_new, "{} has a handler already", method);
}

void SimHost::handle_stream(const std::string& method, p2p::StreamHandler handler) {
    auto shared = std::make_shared<p2p::StreamHandler>(std::move(handler));
    const bool is_new = stream_handlers_.emplace(world_.intern(method), std::move(shared)).second;
    DEDLOC_CHECK(is_new, "{} has a handler already", method);
}

void SimHost::remove_handler(const std::string& method) {
    call_handlers_.erase(world_.intern(method));
    stream_handlers_.erase(world_.intern(method));
}

std::vector<std::string> SimHost::methods() const {
    std::vector<std::string> methods;
    for (const auto& [method, handler] : call_handlers_)
        methods.push_back(world_.method_name(method));
    for (const auto& [method, handler] : stream_handlers_)
        methods.push_back(world_.method_name(method));
    std::ranges::sort(methods);
    return methods;
}

Task<void> SimHost::stop() {
    stopping_ = true;
    if (process_.alive) {
        const std::vector<PeerId> peers = connected_peers();
        for (const PeerId& peer : peers)
            if (auto wire = wire_to(peer))
                wire->close(wire->side_of(*this), "the host was stopped");
        const auto dials = dials_;
        for (const auto& [peer, dial] : dials) finish_dial(dial, why_cut_off());
    } else {
        process_.teardown = true;
        world_.release_held(process_);
    }
    co_await scope_.stop();
}

}  // namespace dedloc::sim
