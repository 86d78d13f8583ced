#include "dedloc/security/identity.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/x509.h>

#include "dedloc/base/fields.h"
#include "dedloc/security/openssl_rsa.h"
#include "dedloc/wire/message.h"

namespace dedloc::security {
namespace {

constexpr std::size_t inlined_key_bytes_max = 42;
constexpr std::string_view ed25519_protobuf_prefix = "\x08\x01\x12\x20";
constexpr std::size_t ecdsa_key_bytes_max = 256;
constexpr std::size_t secp256k1_key_bytes = 33;

using Key = std::shared_ptr<evp_pkey_st>;

// Both fields are proto2 `required`: written always, also type 0.
struct KeyMessage {
    std::optional<KeyType> type;
    std::optional<Bytes> data;

    DEDLOC_FIELDS(type, data)
};

Bytes encode_key(KeyType type, ByteView data) {
    KeyMessage message;
    message.type = type;
    message.data = to_bytes(data);
    return wire::encode(message);
}

Result<KeyMessage> decode_key(ByteView protobuf) {
    DEDLOC_TRY(KeyMessage message, wire::decode<KeyMessage>(protobuf));
    if (!message.type || !message.data)
        return make_error(ErrorKind::bad_input, "a key message lacks its type or its data");
    return message;
}

Key owned(EVP_PKEY* key) { return {key, &EVP_PKEY_free}; }

Error malformed(std::string_view what) {
    ERR_clear_error();
    return make_error(ErrorKind::bad_input, "this is not a public key of type {}", what);
}

// SubjectPublicKeyInfo, with nothing after it.
Result<Key> parse_spki(ByteView data, std::string_view what) {
    const unsigned char* position = data.data();
    Key key = owned(d2i_PUBKEY(nullptr, &position, static_cast<long>(data.size())));
    if (!key || position != data.data() + data.size()) return malformed(what);
    return key;
}

Result<Key> parse_rsa(ByteView data) {
    DEDLOC_TRY(Key key, parse_spki(data, "RSA"));
    if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) return malformed("RSA");
    const int bits = EVP_PKEY_get_bits(key.get());
    if (bits < rsa_bits_min || bits > rsa_bits_max)
        return make_error(ErrorKind::bad_input,
                          "an RSA key of {} bits; {} to {} are accepted",
                          bits,
                          rsa_bits_min,
                          rsa_bits_max);
    if (!has_short_exponent(key.get())) return malformed("RSA (with an exponent that is in use)");
    return key;
}

Result<Key> parse_ecdsa(ByteView data) {
    if (data.size() > ecdsa_key_bytes_max) return malformed("ECDSA");
    DEDLOC_TRY(Key key, parse_spki(data, "ECDSA"));
    char group[32] = "";
    if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_EC ||
        EVP_PKEY_get_group_name(key.get(), group, sizeof group, nullptr) != 1 ||
        std::string_view(group) != "prime256v1")
        return malformed("ECDSA (only the named curve P-256)");
    return key;
}

Result<Key> parse_secp256k1(ByteView data) {
    if (data.size() != secp256k1_key_bytes) return malformed("secp256k1");
    char group[] = "secp256k1";
    Bytes point = to_bytes(data);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
        OSSL_PARAM_construct_end()};
    const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
        EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr), &EVP_PKEY_CTX_free);
    EVP_PKEY* key = nullptr;
    if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        return malformed("secp256k1");
    return owned(key);
}

bool verify_over_sha256(EVP_PKEY* key, ByteView message, ByteView signature) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    const bool good =
        EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
        EVP_DigestVerify(
            context.get(), signature.data(), signature.size(), message.data(), message.size()) == 1;
    ERR_clear_error();
    return good;
}

}  // namespace

Bytes signed_bytes(std::string_view domain, ByteView message) {
    Bytes bytes;
    bytes.reserve(wire::varint_bytes_max + domain.size() + message.size());
    wire::put_varint(bytes, domain.size());
    base::append(bytes, as_bytes(domain));
    base::append(bytes, message);
    return bytes;
}

PeerId peer_id_of(ByteView public_key_protobuf) {
    Bytes multihash;
    if (public_key_protobuf.size() <= inlined_key_bytes_max) {
        multihash = {0x00, static_cast<std::uint8_t>(public_key_protobuf.size())};
        base::append(multihash, public_key_protobuf);
    } else {
        multihash = {0x12, 0x20};
        base::append(multihash, sha256(public_key_protobuf).view());
    }
    return PeerId::from_bytes(multihash).value();
}

PublicKey::PublicKey(KeyType type, ByteView data, std::shared_ptr<evp_pkey_st> key)
    : type_(type),
      protobuf_(encode_key(type, data)),
      peer_id_(peer_id_of(protobuf_)),
      key_(std::move(key)) {}

Result<PublicKey> PublicKey::from_parts(KeyType type, ByteView data) {
    switch (type) {
        case KeyType::ed25519: {
            if (data.size() != ed25519_key_bytes) return malformed("Ed25519");
            return PublicKey(type, data, nullptr);
        }
        case KeyType::rsa: {
            DEDLOC_TRY(Key key, parse_rsa(data));
            return PublicKey(type, data, std::move(key));
        }
        case KeyType::ecdsa: {
            DEDLOC_TRY(Key key, parse_ecdsa(data));
            return PublicKey(type, data, std::move(key));
        }
        case KeyType::secp256k1: {
            DEDLOC_TRY(Key key, parse_secp256k1(data));
            return PublicKey(type, data, std::move(key));
        }
    }
    return make_error(
        ErrorKind::unsupported, "unknown key type {}", static_cast<std::uint32_t>(type));
}

Result<PublicKey> PublicKey::from_protobuf(ByteView protobuf) {
    if (protobuf.size() > public_key_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "a public key of {} bytes; at most {} are accepted",
                          protobuf.size(),
                          public_key_bytes_max);
    DEDLOC_TRY(const KeyMessage message, decode_key(protobuf));
    return from_parts(*message.type, *message.data);
}

Result<PublicKey> PublicKey::ed25519(ByteView key) { return from_parts(KeyType::ed25519, key); }

Result<PublicKey> PublicKey::from_peer_id(const PeerId& id) {
    const ByteView multihash = id.bytes();
    if (multihash.size() < 2 || multihash[0] != 0x00)
        return make_error(
            ErrorKind::not_found, "peer id {} is a hash, its key must come apart", id.short_text());
    return from_protobuf(multihash.subspan(2));
}

bool PublicKey::verify(ByteView message, ByteView signature) const {
    if (type_ == KeyType::ed25519) return ed25519_verify(ed25519_key(), message, signature);
    return verify_over_sha256(key_.get(), message, signature);
}

ByteView PublicKey::ed25519_key() const {
    return ByteView(protobuf_).subspan(ed25519_protobuf_prefix.size());
}

struct Identity::Key {
    explicit Key(ByteView seed)
        : pair(seed), public_key(PublicKey::ed25519(pair.public_key()).value()) {}

    Ed25519Pair pair;
    PublicKey public_key;
};

Identity Identity::generate(const RandomFill& random) {
    std::array<std::uint8_t, ed25519_seed_bytes> seed{};
    random(seed);
    Identity identity = from_seed(seed).value();
    OPENSSL_cleanse(seed.data(), seed.size());
    return identity;
}

Result<Identity> Identity::from_seed(ByteView seed) {
    if (seed.size() != ed25519_seed_bytes)
        return make_error(
            ErrorKind::bad_input, "an Ed25519 seed has 32 bytes, these are {}", seed.size());
    return Identity(std::make_shared<const Key>(seed));
}

Result<Identity> Identity::from_private_key(ByteView protobuf) {
    DEDLOC_TRY(const KeyMessage message, decode_key(protobuf));
    if (*message.type != KeyType::ed25519)
        return make_error(ErrorKind::unsupported,
                          "the private key is not Ed25519; make a new identity (RSA, ECDSA and "
                          "secp256k1 keys of other peers are understood, but not as our own)");
    const ByteView data(*message.data);
    // 64 bytes seed ‖ public; the old form of 96 repeats the public half.
    const bool repeats_itself =
        data.size() == 96 && base::equal(data.subspan(32, 32), data.subspan(64, 32));
    if (data.size() != 64 && !repeats_itself)
        return make_error(ErrorKind::bad_input, "the Ed25519 private key is malformed");
    DEDLOC_TRY(Identity identity, from_seed(data.first(32)));
    const PublicKey claimed = PublicKey::ed25519(data.subspan(32, 32)).value();
    if (claimed.peer_id() != identity.id())
        return make_error(ErrorKind::bad_input,
                          "the private key does not belong to the public key beside it");
    return identity;
}

Bytes Identity::private_key() const {
    // PrivateKey has the same two fields as PublicKey.
    Bytes data = to_bytes(key_->pair.seed());
    base::append(data, key_->pair.public_key());
    return encode_key(KeyType::ed25519, data);
}

const PublicKey& Identity::public_key() const { return key_->public_key; }

Bytes Identity::sign(ByteView message) const { return key_->pair.sign(message); }

bool IdentityVerifier::verify(const PeerId& signer,
                              std::string_view domain,
                              ByteView message,
                              ByteView signature) const {
    const auto key = PublicKey::from_peer_id(signer);
    return key && key->type() == KeyType::ed25519 &&
           key->verify(signed_bytes(domain, message), signature);
}

}  // namespace dedloc::security
