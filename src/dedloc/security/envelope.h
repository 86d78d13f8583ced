// libp2p's signed envelopes: a payload, its type, and who signed it for which purpose (domain).
// Used for peer records (identify) and relay vouchers.
//
// Source: libp2p RFC 0002. Errors: peer_broke_protocol. Thread: any.

#pragma once
#include "dedloc/security/identity.h"

namespace dedloc::security {

// A peer record of 128 addresses has less than 32 KiB.
inline constexpr std::size_t envelope_bytes_max = 64 * 1024;

Bytes seal_envelope(const Identity& identity,
                    std::string_view domain,
                    ByteView payload_type,
                    ByteView payload);

struct OpenedEnvelope {
    PublicKey signer;
    Bytes payload;
};

// Refused unless type and signature are right. Whether the signer may say this is the caller's.
Result<OpenedEnvelope> open_envelope(ByteView envelope,
                                     std::string_view domain,
                                     ByteView payload_type);

}  // namespace dedloc::security
