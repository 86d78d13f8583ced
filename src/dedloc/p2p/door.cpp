#include "dedloc/p2p/door.h"

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/relay_stream.h"

namespace dedloc::p2p {
namespace {

constexpr Duration accept_pause = 100ms;  // after a failed accept

}  // namespace

void Door::open() {
    for (const auto& listener : parts_.listeners.all())
        parts_.scope.spawn("p2p accept", accept_loop(listener));
}

Task<void> Door::accept_loop(std::shared_ptr<runtime::Listener> listener) {
    for (;;) {
        auto accepted = co_await listener->accept();
        if (parts_.closing) co_return;
        if (!accepted) {
            const ErrorKind kind = accepted.error().kind();
            if (kind == ErrorKind::cancelled) co_return;
            log(LogLevel::warning, "p2p", "{}", accepted.error().message());
            // A closed connection gives its descriptor to who is at the door.
            if (kind == ErrorKind::overloaded) trimmer_.let_least_missed_go();
            co_await parts_.clock().sleep_for(accept_pause);
            continue;
        }
        // Strangers beyond the limits are hung up on: no answer costs us least.
        SeatPtr seat = seat_for((*accepted)->remote().host);
        if (!seat) continue;
        const std::uint64_t number = seat->number();
        const HolePuncher::PunchPtr punch = puncher_.that_expects((*accepted)->remote());
        auto handshake = punch ? punch_accepted(punch, *std::move(accepted), std::move(seat))
                               : receive_inbound(*std::move(accepted), std::move(seat));
        start_handshake(punch ? "p2p punch" : "p2p inbound", number, std::move(handshake));
    }
}

// Null: there is no room, and nobody can be asked to go.
Door::SeatPtr Door::seat_for(const std::string& ip) {
    if (seats_.size() >= transport::handshakes_inbound_max) {
        const auto task = seats_.unseat_one_for(ip, parts_.now());
        if (!task) return nullptr;
        parts_.scope.cancel_task(*task);
    }
    return seats_.sit(ip);
}

void Door::start_handshake(std::string name, std::uint64_t seat, Task<void> handshake) {
    seats_.belongs_to(seat, parts_.scope.spawn(std::move(name), std::move(handshake)));
}

Task<void> Door::receive_inbound(std::unique_ptr<runtime::Connection> raw, SeatPtr seat) {
    const std::string from = raw->remote().text();
    std::string address = raw->remote().host;
    co_await strangers_.wait_at_the_door(std::move(address));
    auto secured = co_await transport::upgrade_accepted(
        std::move(raw), parts_.options.upgrades, parts_.clock());
    if (!secured) {
        log(LogLevel::debug, "p2p", "inbound from {}: {}", from, secured.error().message());
        co_return;
    }
    if (secured->lane) {
        // The connection keeps its seat while its bundle is incomplete: no peer id is proved yet.
        co_await lanes_.take(*std::move(secured));
        co_return;
    }
    seat.reset();
    Origin origin;
    if (strangers_.contain(secured->remote))
        trimmer_.make_room_for_stranger(secured->raw->remote().host);
    (void)parts_.add(*std::move(secured), std::move(origin));
}

// All that come over one relay come from one network, to us: ids cost nothing, and are not shown
// yet.
Ok Door::receive_circuit(std::shared_ptr<transport::Stream> stream, PeerId caller, PeerId relay) {
    SeatPtr seat = seat_for(relay.text());
    if (!seat) return Error(ErrorKind::overloaded, "too many strangers are at the door");
    const std::uint64_t number = seat->number();
    auto handshake =
        upgrade_circuit(std::move(stream), std::move(caller), std::move(relay), std::move(seat));
    start_handshake("p2p circuit", number, std::move(handshake));
    return {};
}

Task<void> Door::upgrade_circuit(std::shared_ptr<transport::Stream> stream,
                                 PeerId caller,
                                 PeerId relay,
                                 SeatPtr seat) {
    std::string address = relay.text();
    co_await strangers_.wait_at_the_door(std::move(address));
    auto raw = make_relayed_bytes(std::move(stream), caller, relay);
    auto secured = co_await transport::upgrade_accepted(
        std::move(raw), parts_.options.upgrades, parts_.clock());
    seat.reset();
    const auto added = add_circuit(std::move(secured), caller, relay);
    if (!added)
        log(LogLevel::debug,
            "p2p",
            "circuit from {}: {}",
            caller.short_text(),
            added.error().message());
}

Result<ConnectionPtr> Door::add_circuit(Result<transport::SecureConnection> secured,
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
    if (strangers_.contain(caller)) trimmer_.make_room_for_stranger(relay.text());
    return parts_.add(*std::move(secured), std::move(origin));
}

Task<void> Door::punch_accepted(HolePuncher::PunchPtr punch,
                                std::unique_ptr<runtime::Connection> raw,
                                SeatPtr seat) {
    (void)co_await puncher_.finish(std::move(punch), std::move(raw));
    seat.reset();
}

}  // namespace dedloc::p2p
