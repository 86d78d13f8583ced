// Noise_XX_25519_ChaChaPoly_SHA256: the handshake by itself, without framing and without libp2p's
// payloads (noise.h has both).
//
//   XX:  → e    ← e, ee, s, es    → s, se
//
// Source: The Noise Protocol Framework, revision 34 (§4.1, §5, §7). Tested against the published
// vectors of the Go implementation.
// Cost: three X25519 and nine HMAC a side: 0.15 ms. Thread: any one at a time.
// Errors: peer_broke_protocol; then the handshake is dead and must not be used again.

#pragma once
#include <memory>
#include <optional>
#include <span>

#include "dedloc/base/bytes.h"
#include "dedloc/security/hash.h"

struct evp_cipher_ctx_st;
struct evp_pkey_st;

namespace dedloc::security {

inline constexpr std::size_t noise_key_bytes = 32;
inline constexpr std::size_t noise_tag_bytes = 16;
inline constexpr std::size_t noise_message_bytes_max = 65535;

// Every break of a rule becomes this error.
Error noise_refused(std::string_view rule);

// A Diffie-Hellman key pair.
class X25519Key {
  public:
    static X25519Key generate(const RandomFill& random);
    static X25519Key from_private(ByteView bytes);  // 32 bytes

    ByteView public_bytes() const { return public_; }
    // Nullopt where the other side's key is one of the few that give a secret anyone knows.
    std::optional<Digest> shared_with(ByteView public_key) const;

  private:
    std::shared_ptr<evp_pkey_st> pair_;
    Bytes public_;
};

// ChaCha20-Poly1305 with a counter as nonce, in one direction.
class NoiseCipher {
  public:
    enum class Direction { encrypt, decrypt };

    NoiseCipher(Direction direction, const Digest& key, std::uint64_t nonce = 0);
    ~NoiseCipher();
    NoiseCipher(NoiseCipher&&) noexcept;
    NoiseCipher& operator=(NoiseCipher&&) noexcept;

    // Ciphertext and tag: `out` has noise_tag_bytes more than `plain`.
    void encrypt(ByteView associated, ByteView plain, std::span<std::uint8_t> out);
    // `out` has noise_tag_bytes less than `ciphertext`; false, and it means nothing, if the tag is
    // wrong.
    bool decrypt(ByteView associated, ByteView ciphertext, std::span<std::uint8_t> out);

  private:
    void start(ByteView associated);

    std::unique_ptr<evp_cipher_ctx_st, void (*)(evp_cipher_ctx_st*)> context_;
    Direction direction_;
    std::uint64_t nonce_;
};

class NoiseHandshake {
  public:
    enum class Role { initiator, responder };
    struct Ciphers {
        NoiseCipher sending;
        NoiseCipher receiving;
    };

    NoiseHandshake(Role role, X25519Key statics, X25519Key ephemeral, ByteView prologue = {});

    bool writes_next() const { return (messages_ % 2 == 0) == (role_ == Role::initiator); }
    bool done() const { return messages_ == 3; }
    // The next message, with `payload` inside (in the first one for all to read).
    Result<Bytes> write(ByteView payload);
    // The payload of the other side's next message.
    Result<Bytes> read(ByteView message);

    ByteView remote_static() const { return remote_static_; }  // once its message was read
    Ciphers split() const;                                     // when done
    const Digest& hash() const { return hash_; }               // names this handshake when done

  private:
    enum class Token { e, s, ee, es, se };
    static std::span<const Token> tokens(int message);

    void mix_hash(ByteView bytes);
    Ok mix_key(Token token);
    void encrypt_and_hash(ByteView plain, Bytes& out);
    Ok decrypt_and_hash(ByteView ciphertext, Bytes& out);

    Role role_;
    X25519Key static_;
    X25519Key ephemeral_;
    Bytes remote_static_;
    Bytes remote_ephemeral_;
    Digest chaining_key_;
    Digest hash_;
    std::optional<Digest> key_;
    std::uint64_t nonce_ = 0;
    int messages_ = 0;
};

}  // namespace dedloc::security
