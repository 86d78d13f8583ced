// The part of Swarm that deals with relays and NATs: circuits, hole punching, dialling back.

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/ip_family.h"
#include "dedloc/p2p/relay_client.h"
#include "dedloc/p2p/relay_stream.h"
#include "dedloc/p2p/swarm_parts.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

namespace {

// After a refused attempt: routers that answer an unsolicited SYN with a reset are passed by trying
// again while the other side's SYN is on its way.
constexpr Duration punch_retry = 20ms;

}  // namespace

// ------------------------------------------------------------------------------------- circuits

// To the relay itself we must have a connection that is none over a relay.
Task<Result<Swarm::ConnectionPtr>> Swarm::connect_to_relay(wire::Multiaddr address,
                                                           TimePoint deadline) {
    const PeerId relay = *address.peer();
    if (relay == options_.identity.id())
        co_return Error(ErrorKind::not_found, "the relay is this host, which has no such peer");
    if (const ConnectionPtr connection = direct(relay)) co_return connection;
    if (const auto running = dials_.find(relay); running != dials_.end()) {
        const DialPtr dial = running->second;
        const TimePoint patience = std::min(deadline, options_.clock.now() + dial_max / 3);
        (void)co_await dial->done.wait_until(options_.clock, patience);
        if (const ConnectionPtr connection = direct(relay)) co_return connection;
    }
    auto reached = co_await reach_plain(address, relay, deadline);
    if (!reached) co_return std::move(reached).error().with_context("its relay");
    addresses_.worked(relay, address);
    auto added = add(std::move(reached->secured), std::move(reached->origin));
    co_return added;
}

Task<Result<Swarm::Reached>> Swarm::reach_relayed(wire::Multiaddr address,
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
            std::move(raw), options_.upgrades, expected, options_.clock, opening);
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

// Whoever comes over one relay comes from one network, to us: ids cost nothing, and are not shown
// yet.
Ok Swarm::take_circuit(std::shared_ptr<transport::Stream> stream, PeerId caller, PeerId relay) {
    SeatPtr seat = seat_for(relay.text());
    if (!seat) return Error(ErrorKind::overloaded, "too many strangers are at the door");
    const std::uint64_t number = seat->number();
    auto handshake =
        upgrade_circuit(std::move(stream), std::move(caller), std::move(relay), std::move(seat));
    start_handshake("p2p circuit", number, std::move(handshake));
    return {};
}

Task<void> Swarm::upgrade_circuit(std::shared_ptr<transport::Stream> stream,
                                  PeerId caller,
                                  PeerId relay,
                                  SeatPtr seat) {
    std::string address = relay.text();
    co_await wait_at_the_door(std::move(address));
    auto raw = make_relayed_bytes(std::move(stream), caller, relay);
    auto secured =
        co_await transport::upgrade_accepted(std::move(raw), options_.upgrades, options_.clock);
    seat.reset();
    const auto added = add_circuit(std::move(secured), caller, relay);
    if (!added)
        log(LogLevel::debug,
            "p2p",
            "circuit from {}: {}",
            caller.short_text(),
            added.error().message());
}

Result<Swarm::ConnectionPtr> Swarm::add_circuit(Result<transport::SecureConnection> secured,
                                                const PeerId& caller,
                                                const PeerId& relay) {
    if (!secured) return std::move(secured).error();
    if (secured->remote != caller)
        return make_error(ErrorKind::peer_broke_protocol,
                          "relay {} named another caller than came",
                          relay.short_text());
    Origin origin;
    origin.relay = relay;
    origin.path = Path::relayed;
    if (is_stranger(caller)) make_room_for_stranger(relay.text());
    return add(*std::move(secured), std::move(origin));
}

// ---------------------------------------------------------------------------------- hole punching

// 0: no listener could share its port with a connection to there.
std::uint16_t Swarm::listen_port_for(const runtime::SocketAddress& target) const {
    for (const auto& listener : listeners_) {
        const auto local = listener->local();
        if (is_ip6(local.host) == is_ip6(target.host)) return local.port;
    }
    return 0;
}

Swarm::PunchPtr Swarm::punch_that_expects(const runtime::SocketAddress& remote) const {
    for (const PunchPtr& punch : punches_)
        if (punch->targets.contains(remote)) return punch;
    return nullptr;
}

Task<Result<void>> Swarm::punch(PeerId peer,
                                std::vector<wire::Multiaddr> addresses,
                                bool as_client,
                                TimePoint deadline) {
    if (closing_ || punches_.size() >= punches_max)
        co_return Error(ErrorKind::overloaded, "too many holes are being punched");
    auto punch = std::make_shared<Punch>(peer, as_client, deadline, options_.executor);
    for (const auto& address : addresses) {
        if (punch->targets.size() >= punch_addresses_max || !address.is_plain_tcp()) continue;
        runtime::SocketAddress target{.host = *address.host(), .port = *address.tcp_port()};
        if (listen_port_for(target) != 0) punch->targets.insert(std::move(target));
    }
    if (punch->targets.empty())
        co_return Error(ErrorKind::not_found, "there is no address to punch a hole to");
    punches_.push_back(punch);
    for (const auto& target : punch->targets) scope_.spawn("p2p punch", punch_at(punch, target));
    const bool punched = co_await punch->done.wait_until(options_.clock, deadline);
    std::erase(punches_, punch);
    if (punched || direct(peer)) co_return Ok();
    co_return make_error(
        ErrorKind::timeout, "no hole could be punched to peer {}", peer.short_text());
}

// Ends with the punch; a handshake that has begun is not broken off, because the other side may
// have finished it already.
Task<void> Swarm::punch_at(PunchPtr punch, runtime::SocketAddress target) {
    runtime::Clock& clock = options_.clock;
    const std::uint16_t port = listen_port_for(target);
    while (!punch->done.is_set() && !closing_ && clock.now() < punch->deadline) {
        auto raw = co_await options_.network.connect_from(port, target, punch->deadline);
        if (raw) {
            auto finished = co_await finish_punch(punch, *std::move(raw));
            if (finished) co_return;
            log(LogLevel::debug,
                "p2p",
                "punch at {}: {}",
                target.text(),
                finished.error().message());
        }
        co_await clock.sleep_for(punch_retry);
    }
}

Task<void> Swarm::punch_accepted(PunchPtr punch,
                                 std::unique_ptr<runtime::Connection> raw,
                                 SeatPtr seat) {
    (void)co_await finish_punch(std::move(punch), std::move(raw));
    seat.reset();
}

Task<Result<void>> Swarm::finish_punch(PunchPtr punch, std::unique_ptr<runtime::Connection> raw) {
    auto upgrading = punch->as_client ? transport::upgrade_dialled(std::move(raw),
                                                                   options_.upgrades,
                                                                   punch->peer,
                                                                   options_.clock,
                                                                   transport::Opening::ask)
                                      : transport::upgrade_accepted(
                                            std::move(raw), options_.upgrades, options_.clock);
    auto secured = co_await std::move(upgrading);
    if (!secured) co_return std::move(secured).error();
    if (secured->remote != punch->peer)
        co_return Error(ErrorKind::conflict, "somebody else answered");
    Origin origin;
    origin.path = Path::punched;
    origin.from_listen_port = true;
    auto added = add(*std::move(secured), std::move(origin));
    punch->done.set();
    if (!added) co_return std::move(added).error();
    co_return Ok();
}

// -------------------------------------------------------------------------------------- dialling

Task<Result<void>> Swarm::dial_direct(PeerId peer,
                                      std::vector<wire::Multiaddr> addresses,
                                      Path path,
                                      TimePoint deadline) {
    if (direct(peer)) co_return Ok();
    if (addresses.empty()) co_return Error(ErrorKind::not_found, "no address to dial directly");
    if (addresses.size() > addresses_per_peer_max) addresses.resize(addresses_per_peer_max);
    auto dial = std::make_shared<Dial>(peer, std::move(addresses), options_.executor);
    for (const auto& address : dial->addresses)
        dial->tasks.push_back(
            scope_.spawn("p2p dial back", dial_one(dial, address, path, deadline)));
    (void)co_await dial->done.wait_until(options_.clock, deadline);
    if (direct(peer)) co_return Ok();
    co_return make_error(
        ErrorKind::peer_gone, "peer {} cannot be dialled directly", peer.short_text());
}

Task<void> Swarm::dial_one(DialPtr dial, wire::Multiaddr address, Path path, TimePoint deadline) {
    auto reached = co_await reach_plain(address, dial->peer, deadline);
    if (reached) {
        reached->origin.path = path;
        (void)add(std::move(reached->secured), std::move(reached->origin));
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

Task<Result<void>> Swarm::dial_back(wire::Multiaddr address, PeerId peer, TimePoint deadline) {
    // Under an id of its own: else the peer would take it for a second connection of ours.
    auto stranger = transport::UpgradeContext::make(security::Identity::generate(),
                                                    options_.upgrades->settings);
    if (!stranger) co_return std::move(stranger).error();
    runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
    const std::string what = "dialling back to " + address.text();
    auto task = knock_as_stranger(options_.network,
                                  options_.clock,
                                  *std::move(stranger),
                                  std::move(socket),
                                  std::move(peer),
                                  deadline);
    auto reached = co_await runtime::with_deadline(options_.clock, deadline, what, std::move(task));
    co_return reached;
}

}  // namespace dedloc::p2p
