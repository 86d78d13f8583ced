#include "dedloc/p2p/relay_service.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/relay_stream.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/envelope.h"
#include "dedloc/wire/identify.h"

namespace dedloc::p2p {

namespace {

std::optional<PeerId> peer_of(const wire::HopMessage& request) {
    if (!request.peer) return std::nullopt;
    auto id = PeerId::from_bytes(request.peer->id);
    if (!id) return std::nullopt;
    return *std::move(id);
}

void answer(transport::Stream& stream, wire::HopMessage message) {
    message.type = wire::HopType::status;
    stream.write(wire::with_length_prefix(wire::encode(message)));
}

void refuse(transport::Stream& stream, wire::RelayStatus status) {
    wire::HopMessage message;
    message.status = status;
    answer(stream, std::move(message));
    stream.finish();
}

}  // namespace

// Two streams that are joined; ends both when either fails or a limit is reached.
struct RelayService::Circuit {
    PeerId from;
    std::shared_ptr<transport::Stream> ends[2];
    std::uint64_t bytes[2] = {0, 0};

    void break_off() const {
        for (const auto& end : ends) end->reset();
    }
};

// A circuit counts at both its ends, and where it was opened from, for as long as its task exists.
class RelayService::PeerLoad {
  public:
    PeerLoad(RelayService& service, const PeerId& from, std::string subnet, const PeerId& to)
        : service_(service), peers_{from, to}, subnet_(std::move(subnet)) {
        for (const PeerId& peer : peers_) ++service_.circuits_[peer];
        ++service_.opened_from_[subnet_];
        ++service_.counters_.circuits;
        is_introduction_ = !service_.around_.is_served(from);
        if (!is_introduction_) return;
        ++service_.introduced_from_[subnet_];
        ++service_.introductions_;
    }
    ~PeerLoad() {
        if (is_introduction_) {
            --service_.introductions_;
            if (--service_.introduced_from_[subnet_] == 0) service_.introduced_from_.erase(subnet_);
        }
        for (const PeerId& peer : peers_)
            if (--service_.circuits_[peer] == 0) service_.circuits_.erase(peer);
        if (--service_.opened_from_[subnet_] == 0) service_.opened_from_.erase(subnet_);
        --service_.counters_.circuits;
    }
    PeerLoad(const PeerLoad&) = delete;
    PeerLoad& operator=(const PeerLoad&) = delete;

  private:
    RelayService& service_;
    PeerId peers_[2];
    std::string subnet_;
    bool is_introduction_ = false;
};

RelayService::RelayService(RelayLimits limits, Surroundings surroundings)
    : limits_(limits), around_(std::move(surroundings)) {}
RelayService::~RelayService() = default;

void RelayService::forget(const PeerId& peer) { places_.erase(peer); }

void RelayService::drop_expired() {
    const TimePoint now = around_.clock.now();
    std::erase_if(places_, [&](const auto& entry) {
        return entry.second.until <= now || !around_.is_served(entry.first);
    });
}

RelayCounters RelayService::counters() const {
    RelayCounters counters = counters_;
    const TimePoint now = around_.clock.now();
    counters.reservations = static_cast<std::size_t>(std::ranges::count_if(
        places_, [now](const auto& entry) { return entry.second.until > now; }));
    return counters;
}

std::size_t RelayService::circuits_of(const PeerId& peer) const {
    const auto found = circuits_.find(peer);
    return found == circuits_.end() ? 0 : found->second;
}

std::size_t RelayService::circuits_from(const std::string& subnet) const {
    const auto found = opened_from_.find(subnet);
    return found == opened_from_.end() ? 0 : found->second;
}

std::optional<wire::RelayLimit> RelayService::circuit_limit() const {
    if (limits_.circuit_duration == 0s && limits_.circuit_bytes == 0) return std::nullopt;
    wire::RelayLimit limit;
    limit.duration_s = static_cast<std::uint32_t>(limits_.circuit_duration / 1s);
    limit.data_bytes = limits_.circuit_bytes;
    return limit;
}

// -------------------------------------------------------------------------------- reservations

wire::RelayStatus RelayService::take_reservation(const PeerConnection& connection) {
    if (!around_.is_serving() || connection.is_relayed()) return Status::permission_denied;
    drop_expired();
    const PeerId& peer = connection.remote();
    if (!around_.is_served(peer)) return Status::permission_denied;
    const std::string subnet = subnet_of(connection.remote_address().host);
    if (!places_.contains(peer) && !make_place_for(subnet)) return Status::reservation_refused;
    places_[peer] = {around_.clock.now() + limits_.reservation_life, subnet};
    return Status::ok;
}

// A full relay has room for an address that has two places less than the one with most.
bool RelayService::make_place_for(const std::string& subnet) {
    std::map<std::string, std::size_t> held;
    for (const auto& [peer, place] : places_) ++held[place.subnet];
    if (held[subnet] >= limits_.reservations_per_ip) return false;
    if (places_.size() < limits_.reservations) return true;
    const auto most =
        std::ranges::max_element(held, {}, [](const auto& entry) { return entry.second; });
    if (most->second < held[subnet] + 2) return false;
    // The one that asked longest ago: the next to renew, if it is still there.
    auto goes = places_.end();
    for (auto place = places_.begin(); place != places_.end(); ++place) {
        if (place->second.subnet != most->first) continue;
        if (goes == places_.end() || place->second.until < goes->second.until) goes = place;
    }
    places_.erase(goes);
    return true;
}

wire::HopMessage RelayService::grant(const PeerId& peer) const {
    const WallSeconds until = around_.clock.wall_now() + to_seconds(limits_.reservation_life);
    const PeerId& me = around_.identity.id();
    wire::RelayVoucher voucher;
    voucher.relay = to_bytes(me.bytes());
    voucher.peer = to_bytes(peer.bytes());
    voucher.expiration_unix_s = static_cast<std::uint64_t>(until);
    wire::RelayReservation reservation;
    reservation.expire_unix_s = voucher.expiration_unix_s;
    for (const auto& address : around_.own_addresses())
        if (reservation.addresses.size() < addresses_per_peer_max)
            reservation.addresses.push_back(address.with_peer(me).bytes());
    reservation.voucher = security::seal_envelope(around_.identity,
                                                  wire::relay_voucher_domain,
                                                  as_bytes(wire::relay_voucher_type),
                                                  wire::encode(voucher));
    wire::HopMessage message;
    message.status = Status::ok;
    message.reservation = std::move(reservation);
    message.limit = circuit_limit();
    return message;
}

// ------------------------------------------------------------------------------------ circuits

Task<void> RelayService::serve(ConnectionPtr connection,
                               std::shared_ptr<transport::Stream> stream) {
    stream->set_deadline(around_.clock.now() + relay_message_wait_max);
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) {
        stream->reset();
        co_return;
    }
    const auto request = wire::decode<wire::HopMessage>(*bytes);
    if (!request || !request->type) {
        refuse(*stream, Status::malformed_message);
        co_return;
    }
    if (*request->type == wire::HopType::reserve) {
        const Status status = take_reservation(*connection);
        if (status != Status::ok) {
            ++counters_.refused;
            refuse(*stream, status);
            co_return;
        }
        answer(*stream, grant(connection->remote()));
        stream->finish();
        co_return;
    }
    if (*request->type != wire::HopType::connect) {
        refuse(*stream, Status::unexpected_message);
        co_return;
    }
    if (connection->is_relayed()) {
        refuse(*stream, Status::permission_denied);
        co_return;
    }
    std::string subnet = subnet_of(connection->remote_address().host);
    auto to = peer_of(*request);
    co_await connect(std::move(stream), connection->remote(), std::move(subnet), std::move(to));
}

wire::RelayStatus RelayService::may_connect(const PeerId& from,
                                            const std::string& subnet,
                                            const std::optional<PeerId>& to) {
    drop_expired();
    if (!to || *to == from) return Status::malformed_message;
    if (!places_.contains(*to)) return Status::no_reservation;
    if (counters_.circuits >= limits_.circuits || circuits_of(from) >= limits_.circuits_per_peer ||
        circuits_of(*to) >= limits_.circuits_per_peer ||
        circuits_from(subnet) >= limits_.circuits_per_ip)
        return Status::resource_limit_exceeded;
    if (around_.is_served(from)) return Status::ok;
    const auto introduced = introduced_from_.find(subnet);
    const std::size_t here = introduced == introduced_from_.end() ? 0 : introduced->second;
    if (introductions_ >= limits_.introductions || here >= limits_.introductions_per_ip)
        return Status::resource_limit_exceeded;
    return Status::ok;
}

Task<void> RelayService::connect(std::shared_ptr<transport::Stream> stream,
                                 PeerId from,
                                 std::string subnet,
                                 std::optional<PeerId> to) {
    const Status status = may_connect(from, subnet, to);
    if (status != Status::ok) {
        ++counters_.refused;
        refuse(*stream, status);
        co_return;
    }
    const PeerLoad load(*this, from, std::move(subnet), *to);
    auto other = co_await knock(from, *to);
    if (!other) {
        log(LogLevel::debug,
            "p2p",
            "circuit {} to {}: {}",
            from.short_text(),
            to->short_text(),
            other.error().message());
        refuse(*stream, Status::connection_failed);
        co_return;
    }
    wire::HopMessage welcome;
    welcome.status = Status::ok;
    welcome.limit = circuit_limit();
    answer(*stream, std::move(welcome));
    ++counters_.circuits_begun;
    co_await bridge(from, std::move(stream), *std::move(other));
}

// Tells the one with the reservation who wants to speak with it.
Task<Result<std::shared_ptr<transport::Stream>>> RelayService::knock(PeerId from, PeerId to) {
    const ConnectionPtr connection = around_.direct_connection(to);
    if (!connection) co_return Error(ErrorKind::peer_gone, "it is not connected to this relay");
    const TimePoint deadline = around_.clock.now() + relay_message_wait_max;
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    std::shared_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::relay_stop_protocol));
    wire::StopMessage request;
    request.type = wire::StopType::connect;
    wire::RelayPeer caller;
    caller.id = to_bytes(from.bytes());
    request.peer = std::move(caller);
    request.limit = circuit_limit();
    stream->write(wire::with_length_prefix(wire::encode(request)));
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) co_return std::move(bytes).error();
    const auto reply = wire::decode<wire::StopMessage>(*bytes);
    if (!reply || reply->type != wire::StopType::status || reply->status != Status::ok)
        co_return Error(ErrorKind::denied, "it does not take the circuit");
    co_return stream;
}

Task<void> RelayService::bridge(PeerId from,
                                std::shared_ptr<transport::Stream> a,
                                std::shared_ptr<transport::Stream> b) {
    auto circuit = std::make_shared<Circuit>();
    circuit->from = from;
    circuit->ends[0] = a;
    circuit->ends[1] = b;
    TimePoint end = TimePoint::never();
    if (limits_.circuit_duration > 0s) end = around_.clock.now() + limits_.circuit_duration;
    const auto expire = [circuit] { circuit->break_off(); };
    const runtime::TimerGuard guard(around_.clock, around_.clock.call_at(end, expire));
    const TimePoint introduced = around_.clock.now() + limits_.introduction_duration;
    const auto expire_if_stranger = [this, circuit] {
        if (!around_.is_served(circuit->from)) circuit->break_off();
    };
    const runtime::TimerGuard introduction(around_.clock,
                                           around_.clock.call_at(introduced, expire_if_stranger));
    a->set_deadline(TimePoint::never());
    b->set_deadline(TimePoint::never());
    std::vector<Task<void>> directions;
    directions.push_back(copy(circuit, a, b));
    directions.push_back(copy(circuit, b, a));
    co_await runtime::all_of(std::move(directions));
}

// All of those who are not served share a rate, in turn.
Task<void> RelayService::wait_for_introductions(std::size_t bytes) {
    const TimePoint now = around_.clock.now();
    const double seconds =
        static_cast<double>(bytes) / static_cast<double>(limits_.introduction_bytes_per_s);
    introductions_until_ = std::max(introductions_until_, now) + from_seconds(seconds);
    const TimePoint until = introductions_until_;
    co_await around_.clock.sleep_until(until);
}

Task<void> RelayService::copy(std::shared_ptr<Circuit> circuit,
                              std::shared_ptr<transport::Stream> from,
                              std::shared_ptr<transport::Stream> to) {
    std::uint64_t& carried = circuit->bytes[from == circuit->ends[0] ? 0 : 1];
    for (;;) {
        auto ready = co_await from->readable();
        if (!ready) break;
        Bytes piece(relay_buffer_bytes_max);
        piece.resize(from->read_some(piece));
        if (piece.empty()) {
            to->finish();
            co_return;
        }
        carried += piece.size();
        counters_.bytes += piece.size();
        if (limits_.circuit_bytes > 0 && carried > limits_.circuit_bytes) break;
        if (!around_.is_served(circuit->from)) {
            if (carried > limits_.introduction_bytes) break;
            co_await wait_for_introductions(piece.size());
        }
        to->write(std::move(piece));
        auto sent = co_await to->sent();
        if (!sent) break;
    }
    circuit->break_off();
}

}  // namespace dedloc::p2p
