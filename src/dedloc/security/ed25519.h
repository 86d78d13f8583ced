// Ed25519 by libsodium: 0.45 times as long as by OpenSSL, which Debian's version does with limbs of
// 26 bits. Refused beside wrong signatures: keys of small order, with which anybody's signature of
// anything is right, and points and numbers that are not written in the one shortest way.
//
// Source: RFC 8032; docs/decisions/0011. Cost: sign 20 µs, check 56 µs (hash_bench.cpp).
// Thread: any. Errors: none but lengths that are ours to keep (a bug).

#pragma once
#include <array>

#include "dedloc/base/bytes.h"

namespace dedloc::security {

inline constexpr std::size_t ed25519_seed_bytes = 32;
inline constexpr std::size_t ed25519_key_bytes = 32;
inline constexpr std::size_t ed25519_signature_bytes = 64;

class Ed25519Pair {
  public:
    explicit Ed25519Pair(ByteView seed);  // ed25519_seed_bytes
    ~Ed25519Pair();                       // leaves no secret in memory
    Ed25519Pair(const Ed25519Pair&) = delete;
    Ed25519Pair& operator=(const Ed25519Pair&) = delete;

    ByteView seed() const { return ByteView(secret_).first(ed25519_seed_bytes); }
    ByteView public_key() const { return ByteView(secret_).subspan(ed25519_seed_bytes); }
    Bytes sign(ByteView message) const;

  private:
    std::array<std::uint8_t, ed25519_seed_bytes + ed25519_key_bytes> secret_{};
};

// `key`: ed25519_key_bytes. A signature of another length is a wrong one.
bool ed25519_verify(ByteView key, ByteView message, ByteView signature);

}  // namespace dedloc::security
