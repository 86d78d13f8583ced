#include "dedloc/security/ed25519.h"

#include <sodium.h>

#include "dedloc/base/check.h"

namespace dedloc::security {

static_assert(ed25519_seed_bytes == crypto_sign_SEEDBYTES);
static_assert(ed25519_key_bytes == crypto_sign_PUBLICKEYBYTES);
static_assert(ed25519_signature_bytes == crypto_sign_BYTES);
static_assert(ed25519_seed_bytes + ed25519_key_bytes == crypto_sign_SECRETKEYBYTES);

namespace {

void make_ready() {  // finds out what the processor can do
    static const bool ready = sodium_init() >= 0;
    DEDLOC_CHECK(ready);
}

}  // namespace

Ed25519Pair::Ed25519Pair(ByteView seed) {
    DEDLOC_CHECK(seed.size() == ed25519_seed_bytes);
    make_ready();
    std::array<std::uint8_t, ed25519_key_bytes> public_key{};
    crypto_sign_seed_keypair(public_key.data(), secret_.data(), seed.data());
}

Ed25519Pair::~Ed25519Pair() { sodium_memzero(secret_.data(), secret_.size()); }

Bytes Ed25519Pair::sign(ByteView message) const {
    Bytes signature(ed25519_signature_bytes);
    crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), secret_.data());
    return signature;
}

bool ed25519_verify(ByteView key, ByteView message, ByteView signature) {
    DEDLOC_CHECK(key.size() == ed25519_key_bytes);
    make_ready();
    return signature.size() == ed25519_signature_bytes &&
           crypto_sign_verify_detached(
               signature.data(), message.data(), message.size(), key.data()) == 0;
}

}  // namespace dedloc::security
