// Any bytes as a TLS certificate, a public key, a private key and a signed envelope: by the first
// byte. A key that is read must be written and read alike.

#include <cstdlib>

#include "dedloc/security/envelope.h"
#include "dedloc/security/tls_certificate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc::security;
    if (size == 0) return 0;
    const dedloc::ByteView bytes(data + 1, size - 1);
    switch (data[0] % 4) {
        case 0:
            (void)check_tls_certificate(bytes, 1750000000);
            break;
        case 1:
            if (const auto key = PublicKey::from_protobuf(bytes)) {
                const auto again = PublicKey::from_protobuf(key->protobuf());
                if (!again || again->peer_id() != key->peer_id()) std::abort();
                (void)key->verify(bytes, bytes);
            }
            break;
        case 2:
            if (const auto identity = Identity::from_private_key(bytes);
                identity && !Identity::from_private_key(identity->private_key()))
                std::abort();
            break;
        default:
            (void)open_envelope(bytes, "libp2p-peer-record", dedloc::as_bytes("\x03\x01"));
    }
    return 0;
}
