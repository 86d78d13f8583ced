#include "dedloc/security/noise_handshake.h"

#include <algorithm>
#include <array>
#include <limits>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <tuple>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_fetch.h"
#include "dedloc/security/openssl_size.h"

namespace dedloc::security {
namespace {

constexpr std::string_view protocol_name = "Noise_XX_25519_ChaChaPoly_SHA256";
static_assert(protocol_name.size() == 32, "32 bytes: they are the first hash as they are");

const EVP_CIPHER* chacha20_poly1305() {
    static const EVP_CIPHER* const cipher = fetch_cipher("ChaCha20-Poly1305");
    return cipher;
}

// HKDF with two outputs.
std::pair<Digest, Digest> derive(const Digest& chaining_key, ByteView input) {
    const Digest secret = hmac_sha256(chaining_key.view(), input);
    const Digest first = hmac_sha256(secret.view(), Bytes(1, 0x01));
    Bytes rest = to_bytes(first.view());
    rest.push_back(0x02);
    return {first, hmac_sha256(secret.view(), rest)};
}

}  // namespace

Error noise_refused(std::string_view rule) {
    ERR_clear_error();
    return make_error(ErrorKind::peer_broke_protocol, "the Noise handshake is refused: {}", rule);
}

// ----------------------------------------------------------------------------------------- keys

X25519Key X25519Key::generate(const RandomFill& random) {
    std::array<std::uint8_t, noise_key_bytes> secret{};
    random(secret);
    X25519Key key = from_private(secret);
    OPENSSL_cleanse(secret.data(), secret.size());
    return key;
}

X25519Key X25519Key::from_private(ByteView bytes) {
    DEDLOC_CHECK(bytes.size() == noise_key_bytes);
    X25519Key key;
    key.pair_ = {EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes.data(), bytes.size()),
                 &EVP_PKEY_free};
    DEDLOC_CHECK(key.pair_ != nullptr);
    key.public_.resize(noise_key_bytes);
    std::size_t size = key.public_.size();
    DEDLOC_CHECK(EVP_PKEY_get_raw_public_key(key.pair_.get(), key.public_.data(), &size) == 1);
    return key;
}

std::optional<Digest> X25519Key::shared_with(ByteView public_key) const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> other(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, public_key.data(), public_key.size()),
        &EVP_PKEY_free);
    const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
        EVP_PKEY_CTX_new(pair_.get(), nullptr), &EVP_PKEY_CTX_free);
    Digest secret;
    std::size_t size = secret.bytes.size();
    // Fails for a secret of all zeros (RFC 7748 §6.1).
    const bool good = other && context && EVP_PKEY_derive_init(context.get()) == 1 &&
                      EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
                      EVP_PKEY_derive(context.get(), secret.bytes.data(), &size) == 1 &&
                      size == secret.bytes.size();
    ERR_clear_error();
    if (!good) return std::nullopt;
    return secret;
}

// --------------------------------------------------------------------------------------- cipher

NoiseCipher::NoiseCipher(Direction direction, const Digest& key, std::uint64_t nonce)
    : context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free), direction_(direction), nonce_(nonce) {
    DEDLOC_CHECK(context_ != nullptr);
    const int encrypts = direction == Direction::encrypt ? 1 : 0;
    DEDLOC_CHECK(
        EVP_CipherInit_ex(
            context_.get(), chacha20_poly1305(), nullptr, key.bytes.data(), nullptr, encrypts) ==
        1);
}

NoiseCipher::~NoiseCipher() = default;
NoiseCipher::NoiseCipher(NoiseCipher&&) noexcept = default;
NoiseCipher& NoiseCipher::operator=(NoiseCipher&&) noexcept = default;

void NoiseCipher::start(ByteView associated) {
    // At a microsecond a message, half a million years.
    DEDLOC_CHECK(nonce_ != std::numeric_limits<std::uint64_t>::max());
    std::array<std::uint8_t, 12> iv{};
    for (std::size_t i = 0; i < 8; ++i) iv[4 + i] = static_cast<std::uint8_t>(nonce_ >> (8 * i));
    DEDLOC_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, iv.data(), -1) == 1);
    int size = 0;
    if (!associated.empty())
        DEDLOC_CHECK(
            EVP_CipherUpdate(
                context_.get(), nullptr, &size, associated.data(), openssl_size(associated)) == 1);
}

void NoiseCipher::encrypt(ByteView associated, ByteView plain, std::span<std::uint8_t> out) {
    DEDLOC_CHECK(direction_ == Direction::encrypt);
    DEDLOC_CHECK(plain.size() + noise_tag_bytes <= noise_message_bytes_max &&
                 out.size() == plain.size() + noise_tag_bytes);
    start(associated);
    std::uint8_t* const tag = out.data() + plain.size();
    int size = 0;
    if (!plain.empty())
        DEDLOC_CHECK(EVP_CipherUpdate(
                         context_.get(), out.data(), &size, plain.data(), openssl_size(plain)) ==
                     1);
    DEDLOC_CHECK(EVP_CipherFinal_ex(context_.get(), tag, &size) == 1);
    DEDLOC_CHECK(
        EVP_CIPHER_CTX_ctrl(
            context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(noise_tag_bytes), tag) == 1);
    ++nonce_;
}

bool NoiseCipher::decrypt(ByteView associated, ByteView ciphertext, std::span<std::uint8_t> out) {
    DEDLOC_CHECK(direction_ == Direction::decrypt);
    if (ciphertext.size() < noise_tag_bytes || ciphertext.size() > noise_message_bytes_max)
        return false;
    start(associated);
    const ByteView body = ciphertext.first(ciphertext.size() - noise_tag_bytes);
    DEDLOC_CHECK(out.size() == body.size());
    std::array<std::uint8_t, noise_tag_bytes> tag{};
    std::copy_n(ciphertext.last<noise_tag_bytes>().begin(), tag.size(), tag.begin());
    std::uint8_t nothing = 0;
    int size = 0;
    const bool good =
        EVP_CIPHER_CTX_ctrl(
            context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(noise_tag_bytes), tag.data()) ==
            1 &&
        (body.empty() ||
         EVP_CipherUpdate(context_.get(), out.data(), &size, body.data(), openssl_size(body)) ==
             1) &&
        EVP_CipherFinal_ex(context_.get(), &nothing, &size) == 1;
    if (!good) {
        ERR_clear_error();
        return false;
    }
    ++nonce_;
    return true;
}

// ------------------------------------------------------------------------------------ handshake

NoiseHandshake::NoiseHandshake(Role role, X25519Key statics, X25519Key ephemeral, ByteView prologue)
    : role_(role), static_(std::move(statics)), ephemeral_(std::move(ephemeral)) {
    std::copy(protocol_name.begin(), protocol_name.end(), hash_.bytes.begin());
    chaining_key_ = hash_;
    mix_hash(prologue);
}

std::span<const NoiseHandshake::Token> NoiseHandshake::tokens(int message) {
    static constexpr std::array<Token, 7> pattern = {
        Token::e, Token::e, Token::ee, Token::s, Token::es, Token::s, Token::se};
    const std::span<const Token> all(pattern);
    if (message == 0) return all.first(1);
    return message == 1 ? all.subspan(1, 4) : all.subspan(5, 2);
}

void NoiseHandshake::mix_hash(ByteView bytes) {
    Sha256 hasher;
    hash_ = hasher.update(hash_.view()).update(bytes).finish();
}

Ok NoiseHandshake::mix_key(Token token) {
    // "es": the initiator's ephemeral and the responder's static key; "se": the other way round.
    const bool with_our_static = token == (role_ == Role::initiator ? Token::se : Token::es);
    const bool with_their_static = token == (role_ == Role::initiator ? Token::es : Token::se);
    const X25519Key& ours = with_our_static ? static_ : ephemeral_;
    const auto secret = ours.shared_with(with_their_static ? remote_static_ : remote_ephemeral_);
    if (!secret) return noise_refused("its key is not a key");
    std::tie(chaining_key_, key_) = derive(chaining_key_, secret->view());
    nonce_ = 0;
    return {};
}

void NoiseHandshake::encrypt_and_hash(ByteView plain, Bytes& out) {
    const std::size_t begin = out.size();
    if (key_) {
        NoiseCipher cipher(NoiseCipher::Direction::encrypt, *key_, nonce_++);
        out.resize(begin + plain.size() + noise_tag_bytes);
        cipher.encrypt(hash_.view(), plain, std::span(out).subspan(begin));
    } else {
        base::append(out, plain);
    }
    mix_hash(ByteView(out).subspan(begin));
}

Ok NoiseHandshake::decrypt_and_hash(ByteView ciphertext, Bytes& out) {
    if (key_) {
        NoiseCipher cipher(NoiseCipher::Direction::decrypt, *key_, nonce_++);
        out.resize(ciphertext.size() - std::min(ciphertext.size(), noise_tag_bytes));
        if (!cipher.decrypt(hash_.view(), ciphertext, out))
            return noise_refused("a message was changed on its way, or is no Noise");
    } else {
        out = to_bytes(ciphertext);
    }
    mix_hash(ciphertext);
    return {};
}

Result<Bytes> NoiseHandshake::write(ByteView payload) {
    DEDLOC_CHECK(!done() && writes_next(), "it is the other side's turn");
    Bytes message;
    for (const Token token : tokens(messages_)) {
        if (token == Token::e) {
            base::append(message, ephemeral_.public_bytes());
            mix_hash(ephemeral_.public_bytes());
        } else if (token == Token::s) {
            encrypt_and_hash(static_.public_bytes(), message);
        } else {
            DEDLOC_TRY_VOID(mix_key(token));
        }
    }
    encrypt_and_hash(payload, message);
    DEDLOC_CHECK(message.size() <= noise_message_bytes_max);
    ++messages_;
    return message;
}

Result<Bytes> NoiseHandshake::read(ByteView message) {
    DEDLOC_CHECK(!done() && !writes_next(), "it is our turn");
    base::ByteReader reader(message);
    for (const Token token : tokens(messages_)) {
        if (token == Token::e || token == Token::s) {
            const std::size_t size =
                noise_key_bytes + (token == Token::s && key_ ? noise_tag_bytes : 0);
            const auto bytes = reader.take(size);
            if (!bytes) return noise_refused("a message is too short");
            Bytes& key = token == Token::e ? remote_ephemeral_ : remote_static_;
            if (token == Token::e) {
                key = to_bytes(*bytes);
                mix_hash(*bytes);
            } else {
                DEDLOC_TRY_VOID(decrypt_and_hash(*bytes, key));
            }
        } else {
            DEDLOC_TRY_VOID(mix_key(token));
        }
    }
    Bytes payload;
    DEDLOC_TRY_VOID(decrypt_and_hash(message.subspan(reader.position()), payload));
    ++messages_;
    return payload;
}

NoiseHandshake::Ciphers NoiseHandshake::split() const {
    DEDLOC_CHECK(done());
    const auto [first, second] = derive(chaining_key_, {});
    const bool we_are_first = role_ == Role::initiator;
    return {NoiseCipher(NoiseCipher::Direction::encrypt, we_are_first ? first : second),
            NoiseCipher(NoiseCipher::Direction::decrypt, we_are_first ? second : first)};
}

}  // namespace dedloc::security
