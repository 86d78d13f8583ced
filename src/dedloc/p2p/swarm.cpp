#include "dedloc/p2p/swarm.h"

#include <algorithm>
#include <utility>

#include "dedloc/p2p/ip_family.h"

namespace dedloc::p2p {

namespace {

constexpr Duration goodbye_max = 200ms;  // for the go-aways of close_all()

}  // namespace

Ok Listeners::open(const std::vector<std::string>& multiaddrs) {
    std::vector<std::shared_ptr<runtime::Listener>> opened;
    for (const std::string& text : multiaddrs) {
        DEDLOC_TRY(const wire::Multiaddr address, wire::Multiaddr::from_text(text));
        if (!address.is_plain_tcp())
            return make_error(ErrorKind::bad_input,
                              "cannot listen on \"{}\"; give an address like "
                              "/ip4/0.0.0.0/tcp/4001",
                              text);
        const runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
        DEDLOC_TRY(std::unique_ptr<runtime::Listener> listener, network_.listen(socket));
        opened.push_back(std::move(listener));
    }
    listeners_ = std::move(opened);
    return {};
}

std::vector<runtime::SocketAddress> Listeners::addresses() const {
    std::vector<runtime::SocketAddress> addresses;
    for (const auto& listener : listeners_) addresses.push_back(listener->local());
    return addresses;
}

std::uint16_t Listeners::port_for(const runtime::SocketAddress& target) const {
    for (const auto& listener : listeners_) {
        const auto local = listener->local();
        if (is_ip6(local.host) == is_ip6(target.host)) return local.port;
    }
    return 0;
}

void Listeners::close() {
    for (const auto& listener : listeners_) listener->close();
}

// ----------------------------------------------------------------------------------- the swarm

Swarm::Swarm(Options options, runtime::Scope& scope)
    : options_(std::move(options)),
      parts_{.options = options_, .scope = scope},
      table_(parts_),
      strangers_(parts_, table_),
      lanes_(parts_, table_),
      trimmer_(parts_, table_, lanes_, strangers_),
      dialler_(parts_, table_),
      puncher_(parts_, table_),
      door_(parts_, puncher_, lanes_, strangers_, trimmer_) {
    parts_.add = [this](transport::SecureConnection secured, Origin origin) {
        return add(std::move(secured), std::move(origin));
    };
    parts_.make_connection = [this](transport::SecureConnection secured, Origin origin) {
        return make_connection(std::move(secured), std::move(origin));
    };
    lanes_.ask_for_room([this](std::size_t connections, Duration unused_for) {
        return trimmer_.make_room_for(connections, unused_for);
    });
}

Swarm::~Swarm() = default;

Ok Swarm::listen(const std::vector<std::string>& multiaddrs) {
    DEDLOC_TRY_VOID(parts_.listeners.open(multiaddrs));
    door_.open();
    trimmer_.start();
    return {};
}

std::vector<runtime::SocketAddress> Swarm::listen_addresses() const {
    return parts_.listeners.addresses();
}

Task<Result<std::unique_ptr<transport::Stream>>> Swarm::open_stream(PeerId peer,
                                                                    TimePoint deadline,
                                                                    bool is_bulk) {
    // A connection may be lost between finding and using it: that costs one more dial, not a call.
    for (int tries = 0;; ++tries) {
        auto connected = co_await dialler_.connect(peer, deadline);
        if (!connected) co_return std::move(connected).error();
        const ConnectionPtr lanes = is_bulk ? lanes_.to(peer) : nullptr;
        const ConnectionPtr connection = lanes ? lanes : table_.best(peer);
        if (!connection) continue;
        auto stream = co_await connection->open_stream(deadline);
        if (stream || stream.error().kind() != ErrorKind::peer_gone || tries >= 2) co_return stream;
    }
}

// ---------------------------------------------------------------------------------- connections

ConnectionPtr Swarm::make_connection(transport::SecureConnection secured, Origin origin) {
    PeerConnection::Settings settings{
        .executor = options_.executor,
        .clock = options_.clock,
        .memory = strangers_.stream_memory(),
        .keep_alive_interval = options_.keep_alive_interval,
        .keep_alive_answer_max = options_.keep_alive_answer_max,
        .origin = std::move(origin),
        .traffic = parts_.traffic.counter_of(secured.remote),
        .is_needed = [this, peer = secured.remote] { return parts_.needed.is_needed(peer); },
        .strangers_turn = nullptr,
        .spend = nullptr};
    if (options_.limits_strangers) {
        settings.strangers_turn = [this](PeerId peer) { return strangers_.turn(std::move(peer)); };
        settings.spend = [this](const PeerId& peer, const StrangerBudget::Cost& cost) {
            strangers_.spend(peer, cost);
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
        if (const ConnectionPtr alive = weak.lock()) lanes_.consider(alive);
    };
    return connection;
}

Result<ConnectionPtr> Swarm::add(transport::SecureConnection secured, Origin origin) {
    const PeerId peer = secured.remote;
    if (parts_.closing) return Error(ErrorKind::peer_gone, "this host is stopping");
    if (table_.to(peer).size() >= connections_per_peer_max || !trimmer_.make_room_for(1))
        return Error(ErrorKind::overloaded, "this host has too many connections");
    const std::size_t twins = table_.to(peer).size();  // one of them may have made room
    const ConnectionPtr connection = make_connection(std::move(secured), std::move(origin));
    PeerConnection* const raw = connection.get();
    connection->on_closed = [this, raw](const Error&) { remove(raw); };
    table_.put(connection);
    dialler_.forget_backoff(peer);
    connection->start(parts_.scope);
    dialler_.is_connected(peer);
    if (twins > 0) table_.settle(peer);
    if (on_connection) on_connection(connection);
    if (twins == 0 && on_peer) on_peer(peer, true);
    return connection;
}

void Swarm::remove(const PeerConnection* connection) {
    const PeerId peer = connection->remote();
    const auto taken = table_.take_out(connection);
    if (taken == ConnectionTable::Taken::none) return;
    strangers_.one_ended(peer);
    if (taken == ConnectionTable::Taken::one_of_several) return;
    strangers_.is_gone(peer);
    lanes_.close(peer, Error(ErrorKind::peer_gone, "the connection to the peer was lost"));
    if (on_peer) on_peer(peer, false);
}

void Swarm::disconnect(const PeerId& peer, Error reason) {
    const ConnectionTable::Twins twins = table_.to(peer);
    for (const auto& one : twins) one->close(reason);
}

void Swarm::doubt(const PeerId& peer) {
    for (const auto& one : table_.to(peer))
        if (one->is_usable()) one->probe(options_.keep_alive_answer_max);
}

Task<void> Swarm::close_all() {
    parts_.closing = true;
    parts_.listeners.close();
    const Error reason(ErrorKind::peer_gone, "this host was stopped");
    dialler_.stop(reason);
    std::vector<ConnectionPtr> all = table_.all();
    const std::vector<ConnectionPtr> bundles = lanes_.all();
    all.insert(all.end(), bundles.begin(), bundles.end());
    for (const auto& one : all) {
        one->session().go_away();
        one->close_gently(reason);
    }
    const TimePoint until = parts_.now() + goodbye_max;
    while (table_.count() > 0 && parts_.now() < until)
        co_await options_.clock.sleep_for(goodbye_max / 50);
    for (const auto& one : all) one->close(reason);
}

}  // namespace dedloc::p2p
