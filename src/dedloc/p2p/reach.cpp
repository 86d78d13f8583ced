// Dialler reaches one address: plainly, or over a relay.

#include <algorithm>
#include <utility>

#include "dedloc/p2p/dialler_dial.h"
#include "dedloc/p2p/relay_client.h"
#include "dedloc/p2p/relay_stream.h"

namespace dedloc::p2p {

Task<Result<Dialler::Reached>> Dialler::reach(wire::Multiaddr address,
                                              PeerId expected,
                                              TimePoint deadline) {
    auto reaching = address.is_relayed() ? reach_relayed(address, expected, deadline)
                                         : reach_plain(address, expected, deadline);
    auto reached = co_await std::move(reaching);
    if (reached && reached->secured.remote == parts_.options.identity.id())
        co_return make_error(ErrorKind::bad_input, "{} is our own address", address.text());
    co_return reached;
}

Task<Result<Dialler::Reached>> Dialler::reach_plain(wire::Multiaddr address,
                                                    PeerId expected,
                                                    TimePoint deadline) {
    const runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
    std::uint16_t port = 0;
    if (parts_.options.from_listen_port && parts_.options.from_listen_port(socket.host))
        port = parts_.listeners.port_for(socket);
    transport::Opening opening = transport::Opening::guess;
    // At most three tries: each of the two choices is given up once.
    for (;;) {
        auto connecting = port != 0 ? parts_.options.network.connect_from(port, socket, deadline)
                                    : parts_.options.network.connect(socket, deadline);
        auto raw = co_await std::move(connecting);
        if (!raw && port != 0 && raw.error().kind() == ErrorKind::local_fault) {
            port = 0;
            continue;
        }
        if (!raw) co_return std::move(raw).error();
        auto secured = co_await transport::upgrade_dialled(
            *std::move(raw), parts_.options.upgrades, expected, parts_.clock(), opening);
        if (secured) {
            Reached reached;
            reached.secured = *std::move(secured);
            reached.origin.from_listen_port = port != 0;
            co_return reached;
        }
        const ErrorKind kind = secured.error().kind();
        if (kind == ErrorKind::unsupported && opening == transport::Opening::guess &&
            parts_.options.upgrades->settings.protocols.size() > 1) {
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

// To the relay itself we must have a connection that is none over a relay.
Task<Result<ConnectionPtr>> Dialler::connect_to_relay(wire::Multiaddr address, TimePoint deadline) {
    const PeerId relay = *address.peer();
    if (relay == parts_.options.identity.id())
        co_return Error(ErrorKind::not_found, "the relay is this host, which has no such peer");
    if (const ConnectionPtr connection = table_.direct(relay)) co_return connection;
    if (const auto running = dials_.find(relay); running != dials_.end()) {
        const DialPtr dial = running->second;
        const TimePoint until = std::min(deadline, parts_.now() + dial_max / 3);
        (void)co_await dial->done.wait_until(parts_.clock(), until);
        if (const ConnectionPtr connection = table_.direct(relay)) co_return connection;
    }
    auto reached = co_await reach_plain(address, relay, deadline);
    if (!reached) co_return std::move(reached).error().with_context("its relay");
    addresses_.worked(relay, address);
    auto added = parts_.add(std::move(reached->secured), std::move(reached->origin));
    co_return added;
}

Task<Result<Dialler::Reached>> Dialler::reach_relayed(wire::Multiaddr address,
                                                      PeerId expected,
                                                      TimePoint deadline) {
    if (!can_be_dialled(address) || expected.is_empty())
        co_return make_error(ErrorKind::bad_input,
                             "\"{}\" does not name a relay and a peer behind it",
                             address.text());
    const wire::Multiaddr relay_address = *address.relay();
    const PeerId relay = *relay_address.peer();
    transport::Opening opening = transport::Opening::guess;
    for (;;) {
        auto connection = co_await connect_to_relay(relay_address, deadline);
        if (!connection) co_return std::move(connection).error();
        auto stream = co_await open_circuit(*connection, expected, deadline);
        if (!stream) co_return std::move(stream).error();
        auto raw = make_relayed_bytes(*std::move(stream), expected, relay);
        auto secured = co_await transport::upgrade_dialled(
            std::move(raw), parts_.options.upgrades, expected, parts_.clock(), opening);
        if (secured) {
            Reached reached;
            reached.secured = *std::move(secured);
            reached.origin.relay = relay;
            reached.origin.path = Path::relayed;
            co_return reached;
        }
        if (secured.error().kind() != ErrorKind::unsupported || opening == transport::Opening::ask)
            co_return std::move(secured).error();
        opening = transport::Opening::ask;
    }
}

}  // namespace dedloc::p2p
