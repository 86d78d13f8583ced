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

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.id);
        visit(2, self.addresses, relay_addresses_max);
    }
};

struct RelayLimit {
    std::uint32_t duration_s = 0;  // 0: none
    std::uint64_t data_bytes = 0;  // per direction; 0: none

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.duration_s);
        visit(2, self.data_bytes);
    }
};

struct RelayReservation {
    std::uint64_t expire_unix_s = 0;
    std::vector<Bytes> addresses;  // the relay's, with /p2p/<relay>, without /p2p-circuit
    Bytes voucher;                 // Envelope of RelayVoucher

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.expire_unix_s);
        visit(2, self.addresses, relay_addresses_max);
        visit(3, self.voucher);
    }
};

struct RelayVoucher {
    Bytes relay;
    Bytes peer;
    std::uint64_t expiration_unix_s = 0;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.relay);
        visit(2, self.peer);
        visit(3, self.expiration_unix_s);
    }
};

enum class HopType : std::uint32_t { reserve = 0, connect = 1, status = 2 };

struct HopMessage {
    std::optional<HopType> type;
    std::optional<RelayPeer> peer;
    std::optional<RelayReservation> reservation;
    std::optional<RelayLimit> limit;
    std::optional<RelayStatus> status;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.peer);
        visit(3, self.reservation);
        visit(4, self.limit);
        visit(5, self.status);
    }
};

enum class StopType : std::uint32_t { connect = 0, status = 1 };

struct StopMessage {
    std::optional<StopType> type;
    std::optional<RelayPeer> peer;
    std::optional<RelayLimit> limit;
    std::optional<RelayStatus> status;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.peer);
        visit(3, self.limit);
        visit(4, self.status);
    }
};

enum class HolePunchType : std::uint32_t { connect = 100, sync = 300 };

struct HolePunch {
    std::optional<HolePunchType> type;
    std::vector<Bytes> observed_addresses;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.observed_addresses, relay_addresses_max);
    }
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

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.peer);
    }
};

struct AutonatDialResponse {
    std::optional<AutonatStatus> status;
    std::string status_text;
    Bytes address;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.status);
        visit(2, self.status_text);
        visit(3, self.address);
    }
};

struct AutonatMessage {
    std::optional<AutonatType> type;
    std::optional<AutonatDial> dial;
    std::optional<AutonatDialResponse> response;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.dial);
        visit(3, self.response);
    }
};

}  // namespace dedloc::wire
