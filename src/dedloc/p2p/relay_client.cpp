#include "dedloc/p2p/relay_client.h"

#include <algorithm>
#include <utility>

#include "dedloc/p2p/relay_stream.h"
#include "dedloc/security/envelope.h"
#include "dedloc/wire/identify.h"

namespace dedloc::p2p {

namespace {

// A relay that says nothing of how long: as go-libp2p.
constexpr Duration life_unsaid = std::chrono::hours(1);
// A reservation that is over, by our clock: that is an hour ahead (summer time, two systems on one
// machine), or more. No relay gives what is over.
constexpr Duration life_if_over = std::chrono::minutes(10);

// Writes one message on a new stream of that protocol and reads the answer.
Task<Result<wire::HopMessage>> ask(std::shared_ptr<transport::Stream> stream,
                                   wire::HopMessage request,
                                   TimePoint deadline) {
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::relay_hop_protocol));
    stream->write(wire::with_length_prefix(wire::encode(request)));
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) co_return std::move(bytes).error();
    auto answer = wire::decode<wire::HopMessage>(*bytes);
    if (!answer) co_return std::move(answer).error();
    if (answer->type != wire::HopType::status)
        co_return Error(ErrorKind::peer_broke_protocol, "a relay's answer that is no status");
    co_return answer;
}

Ok check_voucher(const wire::RelayReservation& reservation, const PeerId& relay, const PeerId& me) {
    if (reservation.voucher.empty()) return {};
    DEDLOC_TRY(
        const security::OpenedEnvelope opened,
        security::open_envelope(
            reservation.voucher, wire::relay_voucher_domain, as_bytes(wire::relay_voucher_type)));
    DEDLOC_TRY(const wire::RelayVoucher voucher, wire::decode<wire::RelayVoucher>(opened.payload));
    const auto is = [](const Bytes& bytes, const PeerId& peer) {
        return std::ranges::equal(ByteView(bytes), peer.bytes());
    };
    if (opened.signer.peer_id() == relay && is(voucher.relay, relay) && is(voucher.peer, me))
        return {};
    return make_error(ErrorKind::peer_broke_protocol,
                      "relay {} gave a voucher that is not for us",
                      relay.short_text());
}

}  // namespace

Error relay_refusal(const PeerId& relay, std::optional<wire::RelayStatus> status) {
    const std::string who = "relay " + relay.short_text();
    switch (status.value_or(wire::RelayStatus::unused)) {
        case wire::RelayStatus::reservation_refused:
        case wire::RelayStatus::resource_limit_exceeded:
            return make_error(ErrorKind::overloaded, "{} has no room for more peers", who);
        case wire::RelayStatus::permission_denied:
            return make_error(ErrorKind::denied, "{} does not serve us", who);
        case wire::RelayStatus::connection_failed:
            return make_error(ErrorKind::peer_gone, "{} cannot reach that peer", who);
        case wire::RelayStatus::no_reservation:
            return make_error(ErrorKind::not_found, "{} does not know that peer", who);
        default:
            return make_error(ErrorKind::peer_broke_protocol,
                              "{} answered with status {}",
                              who,
                              static_cast<std::uint32_t>(status.value_or(wire::RelayStatus{})));
    }
}

Result<Reservation> check_reservation(const wire::HopMessage& answer,
                                      const PeerId& relay,
                                      const PeerId& me,
                                      WallSeconds wall_now) {
    if (answer.status != wire::RelayStatus::ok) return relay_refusal(relay, answer.status);
    if (!answer.reservation)
        return Error(ErrorKind::peer_broke_protocol, "a relay's OK without a reservation");
    DEDLOC_TRY_VOID(check_voucher(*answer.reservation, relay, me));
    Reservation reservation;
    reservation.life = life_unsaid;
    if (answer.reservation->expire_unix_s > 0) {
        const double life = static_cast<double>(answer.reservation->expire_unix_s) - wall_now;
        const double least = to_seconds(relay_reservation_life_min);
        const double most = to_seconds(relay_reservation_life_max);
        reservation.life = life > 0 ? from_seconds(std::clamp(life, least, most)) : life_if_over;
    }
    for (const auto& address : wire::known_multiaddrs(answer.reservation->addresses)) {
        const bool of_others = address.peer() && *address.peer() != relay;
        if (address.is_plain_tcp() && !of_others &&
            reservation.addresses.size() < addresses_per_peer_max)
            reservation.addresses.push_back(address.without_peer());
    }
    return reservation;
}

Task<Result<Reservation>> reserve(std::shared_ptr<PeerConnection> relay,
                                  PeerId me,
                                  WallSeconds wall_now,
                                  TimePoint deadline) {
    const PeerId id = relay->remote();
    auto opened = co_await relay->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    std::shared_ptr<transport::Stream> stream = *std::move(opened);
    wire::HopMessage request;
    request.type = wire::HopType::reserve;
    auto answer = co_await ask(stream, std::move(request), deadline);
    stream->finish();
    if (!answer) co_return std::move(answer).error();
    co_return check_reservation(*answer, id, me, wall_now);
}

Task<Result<std::shared_ptr<transport::Stream>>> open_circuit(std::shared_ptr<PeerConnection> relay,
                                                              PeerId peer,
                                                              TimePoint deadline) {
    const PeerId id = relay->remote();
    auto opened = co_await relay->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    std::shared_ptr<transport::Stream> stream = *std::move(opened);
    wire::HopMessage request;
    request.type = wire::HopType::connect;
    wire::RelayPeer target;
    target.id = to_bytes(peer.bytes());
    request.peer = std::move(target);
    auto answer = co_await ask(stream, std::move(request), deadline);
    if (!answer) co_return std::move(answer).error();
    if (answer->status != wire::RelayStatus::ok) co_return relay_refusal(id, answer->status);
    co_return stream;
}

Task<Result<PeerId>> accept_circuit(std::shared_ptr<transport::Stream> stream, bool is_welcome) {
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) co_return std::move(bytes).error();
    wire::StopMessage answer;
    answer.type = wire::StopType::status;
    const auto request = wire::decode<wire::StopMessage>(*bytes);
    std::optional<PeerId> caller;
    if (request && request->type == wire::StopType::connect && request->peer)
        if (auto id = PeerId::from_bytes(request->peer->id)) caller = *std::move(id);
    answer.status = wire::RelayStatus::ok;
    if (!is_welcome) answer.status = wire::RelayStatus::permission_denied;
    if (!caller) answer.status = wire::RelayStatus::malformed_message;
    stream->write(wire::with_length_prefix(wire::encode(answer)));
    if (answer.status == wire::RelayStatus::ok) co_return *caller;
    stream->finish();
    co_return make_error(caller ? ErrorKind::denied : ErrorKind::peer_broke_protocol,
                         "a relay brought us a circuit that we did not ask for");
}

}  // namespace dedloc::p2p
