// Messages of circuit relay v2, DCUtR and AutoNAT v1: each is one length-prefixed protobuf of at
// most relay_message_bytes_max, read without taking a byte more, because after a relay's OK the
// same stream carries the other peer's connection.
//
// Fields that are proto2 `required` or that peers expect even when zero are std::optional here.
//
// Source: libp2p specs/relay/circuit-v2, relay/DCUtR, autonat. Errors: bad_input. Thread: any.

#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

inline constexpr std::string_view relay_hop_protocol = "/libp2p/circuit/relay/0.2.0/hop";
inline constexpr std::string_view relay_stop_protocol = "/libp2p/circuit/relay/0.2.0/stop";
inline constexpr std::string_view hole_punch_protocol = "/libp2p/dcutr";
inline constexpr std::string_view autonat_protocol = "/libp2p/autonat/1.0.0";
inline constexpr std::size_t relay_message_bytes_max = 4096;
inline constexpr std::size_t relay_addresses_max = 64;

enum class RelayStatus : std::uint32_t {
    unused = 0,
    ok = 100,
    reservation_refused = 200,
    resource_limit_exceeded = 201,
    permission_denied = 202,
    connection_failed = 203,
    no_reservation = 204,
    malformed_message = 400,
    unexpected_message = 401,
};

struct RelayPeer {
    Bytes id;  // bytes, because a bad one is answered with a status and not with silence
    std::vector<Bytes> addresses;

    DEDLOC_FIELDS(id, (addresses, relay_addresses_max))
};

struct RelayLimit {
    std::uint32_t duration_s = 0;  // 0: none
    std::uint64_t data_bytes = 0;  // per direction; 0: none

    DEDLOC_FIELDS(duration_s, data_bytes)
};

struct RelayReservation {
    std::uint64_t expire_unix_s = 0;
    std::vector<Bytes> addresses;  // the relay's, with /p2p/<relay>, without /p2p-circuit
    Bytes voucher;                 // Envelope of RelayVoucher

    DEDLOC_FIELDS(expire_unix_s, (addresses, relay_addresses_max), voucher)
};

struct RelayVoucher {
    Bytes relay;
    Bytes peer;
    std::uint64_t expiration_unix_s = 0;

    DEDLOC_FIELDS(relay, peer, expiration_unix_s)
};

enum class HopType : std::uint32_t { reserve = 0, connect = 1, status = 2 };

struct HopMessage {
    std::optional<HopType> type;
    std::optional<RelayPeer> peer;
    std::optional<RelayReservation> reservation;
    std::optional<RelayLimit> limit;
    std::optional<RelayStatus> status;

    DEDLOC_FIELDS(type, peer, reservation, limit, status)
};

enum class StopType : std::uint32_t { connect = 0, status = 1 };

struct StopMessage {
    std::optional<StopType> type;
    std::optional<RelayPeer> peer;
    std::optional<RelayLimit> limit;
    std::optional<RelayStatus> status;

    DEDLOC_FIELDS(type, peer, limit, status)
};

enum class HolePunchType : std::uint32_t { connect = 100, sync = 300 };

struct HolePunch {
    std::optional<HolePunchType> type;
    std::vector<Bytes> observed_addresses;

    DEDLOC_FIELDS(type, (observed_addresses, relay_addresses_max))
};

enum class AutonatType : std::uint32_t { dial = 0, dial_response = 1 };
enum class AutonatStatus : std::uint32_t {
    ok = 0,
    dial_error = 100,
    dial_refused = 101,
    bad_request = 200,
    internal_error = 300,
};

struct AutonatDial {
    std::optional<RelayPeer> peer;  // the same two fields

    DEDLOC_FIELDS(peer)
};

struct AutonatDialResponse {
    std::optional<AutonatStatus> status;
    std::string status_text;
    Bytes address;

    DEDLOC_FIELDS(status, status_text, address)
};

struct AutonatMessage {
    std::optional<AutonatType> type;
    std::optional<AutonatDial> dial;
    std::optional<AutonatDialResponse> response;

    DEDLOC_FIELDS(type, dial, response)
};

}  // namespace dedloc::wire
