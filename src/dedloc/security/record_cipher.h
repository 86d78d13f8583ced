// The cipher under the records of one direction of a TLS 1.3 connection (an AEAD of RFC 5116).
//
// Two implementations: OpenSSL's, for all three suites; and Intel's multi-buffer library's AES-GCM.
// With vector AES (VAES and AVX-512: Intel since 2019, AMD since 2022), which OpenSSL 3.0 does not
// use, the second takes 0.4 times as long; on older processors with instructions for SHA (AMD since
// 2017) 0.85 times (record_cipher_bench.cpp).
//
// Cost: one pass over the bytes; keys of the second are 1 KiB. Thread: any one at a time.

#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "dedloc/base/bytes.h"

namespace dedloc::security {

inline constexpr std::size_t tls_tag_bytes = 16;

enum class Aead : std::uint8_t { aes_128_gcm, aes_256_gcm, chacha20_poly1305 };
enum class Direction : std::uint8_t { seal, open };

constexpr std::size_t key_bytes_of(Aead aead) { return aead == Aead::aes_128_gcm ? 16 : 32; }

class RecordCipher {
  public:
    using Nonce = std::array<std::uint8_t, 12>;

    virtual ~RecordCipher() = default;
    // Writes `plain` and the byte `type`, encrypted, then the tag: plain.size() + 1 + tls_tag_bytes
    // in all. `header` is authenticated with them.
    virtual void seal(const Nonce& nonce,
                      ByteView header,
                      ByteView plain,
                      std::uint8_t type,
                      std::uint8_t* out) = 0;
    // The other way round: `body` is what seal() wrote. All but the last byte goes to `place`, that
    // byte is returned. nullopt: nobody with the key sealed this, and `place` means nothing.
    virtual std::optional<std::uint8_t> open(const Nonce& nonce,
                                             ByteView header,
                                             ByteView body,
                                             std::uint8_t* place) = 0;
};

// The fastest that this machine has. `key`: key_bytes_of(aead).
std::unique_ptr<RecordCipher> make_record_cipher(Aead aead, ByteView key, Direction direction);

std::unique_ptr<RecordCipher> make_openssl_cipher(Aead aead, ByteView key, Direction direction);
// Null where this processor, this build or the AEAD has none.
std::unique_ptr<RecordCipher> make_vector_cipher(Aead aead, ByteView key, Direction direction);

}  // namespace dedloc::security
