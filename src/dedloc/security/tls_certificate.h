// libp2p's TLS certificates: a throw-away key signs the certificate, and the peer's own key signs
// that key, in an extension. Whoever checks such a certificate learns the peer's PublicKey.
//
// Source: libp2p specs/tls; extension 1.3.6.1.4.1.53594.1.1 = SEQUENCE { OCTET STRING PublicKey
// protobuf, OCTET STRING signature over "libp2p-tls-handshake:" ‖ SubjectPublicKeyInfo }.
// Errors: peer_broke_protocol, with the rule that was broken. Thread: any.

#pragma once
#include <memory>

#include "dedloc/base/time.h"
#include "dedloc/security/identity.h"

struct x509_st;

namespace dedloc::security {

struct TlsCertificate {
    std::shared_ptr<x509_st> certificate;
    std::shared_ptr<evp_pkey_st> key;  // ECDSA P-256
};

// A fresh key and its certificate. It is valid from 1975 to 4096, because a peer with a wrong
// clock must still get in, and the key lives no longer than the process anyway.
TlsCertificate make_tls_certificate(const Identity& identity);

// All rules for one certificate: self-signed by a hash that is not broken, valid now, named curve,
// no critical extension that is not understood, and the identity's signature.
Result<PublicKey> check_tls_certificate(x509_st* certificate, WallSeconds now);
Result<PublicKey> check_tls_certificate(ByteView der, WallSeconds now);

}  // namespace dedloc::security
