// Peers of libp2p tell each other this about themselves: Identify, and the signed envelope with the
// peer's addresses in it. Sealing and opening envelopes: security/envelope.h.
//
// An Identify may come in several messages on one stream; their bytes joined are the whole
// (protobuf merges), so a reader appends all of them and decodes once.
//
// Source: libp2p specs/identify, RFC 0002 (signed envelopes), RFC 0003 (routing records).
// Errors: bad_input. Thread: any.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

inline constexpr std::string_view identify_protocol = "/ipfs/id/1.0.0";
inline constexpr std::string_view identify_push_protocol = "/ipfs/id/push/1.0.0";
// As go-libp2p: at most 10 messages of 8 KiB. rust-libp2p refuses more than 4 KiB: send less.
inline constexpr std::size_t identify_messages_max = 10;
inline constexpr std::size_t identify_received_bytes_max = 8 * 1024;
inline constexpr std::size_t identify_sent_bytes_max = 4 * 1024;
inline constexpr std::size_t identify_addresses_max = 128;
inline constexpr std::size_t identify_protocols_max = 512;

struct Identify {
    Bytes public_key;  // PublicKey protobuf
    std::vector<Bytes> listen_addresses;
    std::vector<std::string> protocols;
    Bytes observed_address;
    std::string protocol_version;
    std::string agent_version;  // "p2pd/0.1": hivemind's daemon
    Bytes signed_peer_record;   // Envelope

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.public_key);
        visit(2, self.listen_addresses, identify_addresses_max);
        visit(3, self.protocols, identify_protocols_max);
        visit(4, self.observed_address);
        visit(5, self.protocol_version);
        visit(6, self.agent_version);
        visit(8, self.signed_peer_record);
    }
};

struct Envelope {
    Bytes public_key;  // PublicKey protobuf; as a field it is that message
    Bytes payload_type;
    Bytes payload;
    Bytes signature;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.public_key);
        visit(2, self.payload_type);
        visit(3, self.payload);
        visit(5, self.signature);
    }
};

// An envelope's signature covers these: domain, type and payload, each with its uvarint length.
Bytes envelope_signed_bytes(std::string_view domain, ByteView payload_type, ByteView payload);

inline constexpr std::string_view peer_record_domain = "libp2p-peer-record";
inline constexpr std::string_view peer_record_type = "\x03\x01";
inline constexpr std::string_view relay_voucher_domain = "libp2p-relay-rsvp";
inline constexpr std::string_view relay_voucher_type = "\x03\x02";

struct PeerRecord {
    struct Address {
        Bytes multiaddr;

        DEDLOC_FIELDS(multiaddr)
    };

    PeerId peer;
    std::uint64_t sequence = 0;  // a higher one replaces a lower one
    std::vector<Address> addresses;

    DEDLOC_FIELDS(peer, sequence, (addresses, identify_addresses_max))
};

}  // namespace dedloc::wire
