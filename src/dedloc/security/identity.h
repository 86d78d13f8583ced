// A peer is its Ed25519 key; here are the public keys of all kinds that other libp2p peers may
// have, and how a PeerId follows from a key.
//
// A PeerId is the multihash of the serialised PublicKey protobuf: the bytes themselves if they are
// at most 42 (Ed25519, secp256k1), else their SHA-256.
//
// Source: libp2p specs/peer-ids. Not here: key files; whoever owns a disk keeps private_key().
// Cost: sign 20 µs, verify 56 µs (Ed25519). Thread: any; all values are immutable.
// Errors: bad_input for malformed keys, unsupported for private keys that are not Ed25519.

#pragma once
#include <memory>
#include <optional>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/security/ed25519.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/signer.h"

struct evp_pkey_st;

namespace dedloc::security {

enum class KeyType : std::uint32_t { rsa = 0, ed25519 = 1, secp256k1 = 2, ecdsa = 3 };

inline constexpr int rsa_bits_min = 2048;  // as go-libp2p
// A stranger's key may cost this to check by: some 0.1 ms. Nobody makes dearer ones.
inline constexpr int rsa_bits_max = 4096;
inline constexpr int rsa_exponent_bits_max = 64;
// A serialised RSA key of 4096 bits has 550 bytes; bounds what a peer can make us parse.
inline constexpr std::size_t public_key_bytes_max = 2048;

// The id of whoever has this serialised PublicKey.
PeerId peer_id_of(ByteView public_key_protobuf);

class PublicKey {
  public:
    // `protobuf` is a PublicKey {Type 1, Data 2}. The key itself is checked, not only the framing.
    static Result<PublicKey> from_protobuf(ByteView protobuf);
    static Result<PublicKey> ed25519(ByteView key);
    // The key inside an id; not_found for ids that are hashes.
    static Result<PublicKey> from_peer_id(const PeerId& id);

    KeyType type() const { return type_; }
    const Bytes& protobuf() const { return protobuf_; }
    const PeerId& peer_id() const { return peer_id_; }

    // Ed25519 plain; RSA PKCS#1 v1.5, ECDSA and secp256k1 DER, all over SHA-256.
    bool verify(ByteView message, ByteView signature) const;

  private:
    PublicKey(KeyType type, ByteView data, std::shared_ptr<evp_pkey_st> key);
    ByteView ed25519_key() const;
    static Result<PublicKey> from_parts(KeyType type, ByteView data);

    KeyType type_;
    Bytes protobuf_;
    PeerId peer_id_;
    std::shared_ptr<evp_pkey_st> key_;  // null for Ed25519
};

class Identity {
  public:
    static Identity generate(const RandomFill& random);
    static Identity generate() { return generate(secure_random_fill()); }
    static Result<Identity> from_seed(ByteView seed);             // 32 bytes
    static Result<Identity> from_private_key(ByteView protobuf);  // 64- or 96-byte Data

    Bytes private_key() const;  // libp2p PrivateKey protobuf; keep it secret
    const PublicKey& public_key() const;
    const PeerId& id() const { return public_key().peer_id(); }
    Bytes sign(ByteView message) const;  // plain: libp2p's own formats bring their domains

  private:
    struct Key;
    explicit Identity(std::shared_ptr<const Key> key) : key_(std::move(key)) {}
    std::shared_ptr<const Key> key_;
};

class IdentitySigner final : public Signer {
  public:
    explicit IdentitySigner(Identity identity) : identity_(std::move(identity)) {}

    const PeerId& id() const override { return identity_.id(); }
    Bytes public_key() const override { return identity_.public_key().protobuf(); }
    Bytes sign(std::string_view domain, ByteView message) const override {
        return identity_.sign(signed_bytes(domain, message));
    }

  private:
    Identity identity_;
};

class IdentityVerifier final : public Verifier {
  public:
    bool verify(const PeerId& signer,
                std::string_view domain,
                ByteView message,
                ByteView signature) const override;
};

}  // namespace dedloc::security
