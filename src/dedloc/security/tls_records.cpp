#include "dedloc/security/tls_records.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_size.h"

namespace dedloc::security {
namespace {

// Records have the version number of TLS 1.2, for old machines on the way.
constexpr std::uint8_t version_major = 3;
constexpr std::uint8_t version_minor = 3;

// Fetched once: looking an algorithm up costs more than a small record.
template <typename Fetch, typename... Arguments>
auto fetched(Fetch fetch, Arguments... arguments) {
    auto found = fetch(nullptr, arguments..., nullptr);
    DEDLOC_CHECK(found != nullptr, "OpenSSL lacks an algorithm of TLS 1.3");
    return found;
}

Error broken(std::string_view rule) {
    ERR_clear_error();
    return make_error(ErrorKind::peer_broke_protocol, "TLS connection failed: {}", rule);
}

}  // namespace

std::optional<TlsSuite> TlsSuite::by_name(std::string_view name) {
    static const EVP_MD* const sha256 = fetched(EVP_MD_fetch, "SHA2-256");
    static const EVP_MD* const sha384 = fetched(EVP_MD_fetch, "SHA2-384");
    static const EVP_CIPHER* const aes_128 = fetched(EVP_CIPHER_fetch, "AES-128-GCM");
    static const EVP_CIPHER* const aes_256 = fetched(EVP_CIPHER_fetch, "AES-256-GCM");
    static const EVP_CIPHER* const chacha = fetched(EVP_CIPHER_fetch, "ChaCha20-Poly1305");
    if (name == "TLS_AES_128_GCM_SHA256") return TlsSuite{aes_128, sha256, 16};
    if (name == "TLS_AES_256_GCM_SHA384") return TlsSuite{aes_256, sha384, 32};
    if (name == "TLS_CHACHA20_POLY1305_SHA256") return TlsSuite{chacha, sha256, 32};
    return std::nullopt;
}

// ----------------------------------------------------------------------------------------- keys

TlsRecords::TlsRecords(const TlsSuite& suite, Bytes secret, Direction direction)
    : suite_(suite),
      direction_(direction),
      secret_(std::move(secret)),
      context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free) {
    DEDLOC_CHECK(context_ != nullptr);
    make_key();
}

TlsRecords::~TlsRecords() {
    if (!secret_.empty()) OPENSSL_cleanse(secret_.data(), secret_.size());
}
TlsRecords::TlsRecords(TlsRecords&&) noexcept = default;
TlsRecords& TlsRecords::operator=(TlsRecords&&) noexcept = default;

// HKDF-Expand-Label without context; all of TLS's keys are shorter than one block.
Bytes TlsRecords::expand(std::string_view label, std::size_t size) const {
    Bytes info;
    base::put_u16_be(info, static_cast<std::uint16_t>(size));
    const std::string name = "tls13 " + std::string(label);
    info.push_back(static_cast<std::uint8_t>(name.size()));
    base::append(info, as_bytes(name));
    info.push_back(0);  // no context
    info.push_back(1);  // the first block
    std::array<std::uint8_t, EVP_MAX_MD_SIZE> block{};
    unsigned int block_bytes = 0;
    DEDLOC_CHECK(HMAC(suite_.hash,
                      secret_.data(),
                      openssl_size(secret_),
                      info.data(),
                      info.size(),
                      block.data(),
                      &block_bytes) != nullptr);
    DEDLOC_CHECK(size <= block_bytes);
    Bytes result(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size));
    OPENSSL_cleanse(block.data(), block.size());
    return result;
}

void TlsRecords::make_key() {
    Bytes key = expand("key", suite_.key_bytes);
    const Bytes iv = expand("iv", iv_.size());
    std::copy(iv.begin(), iv.end(), iv_.begin());
    sequence_ = 0;
    const int seals = direction_ == Direction::seal ? 1 : 0;
    DEDLOC_CHECK(EVP_CipherInit_ex(
                     context_.get(), suite_.cipher, nullptr, key.data(), iv_.data(), seals) == 1);
    OPENSSL_cleanse(key.data(), key.size());
}

void TlsRecords::update_key() {
    Bytes next = expand("traffic upd", secret_.size());
    OPENSSL_cleanse(secret_.data(), secret_.size());
    secret_ = std::move(next);
    make_key();
}

// -------------------------------------------------------------------------------------- records

void TlsRecords::start(ByteView header) {
    std::array<std::uint8_t, 12> nonce = iv_;
    for (std::size_t i = 0; i < 8; ++i)
        nonce[4 + i] = static_cast<std::uint8_t>(nonce[4 + i] ^ (sequence_ >> (56 - 8 * i)));
    ++sequence_;
    int size = 0;
    DEDLOC_CHECK(
        EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
        EVP_CipherUpdate(context_.get(), nullptr, &size, header.data(), openssl_size(header)) == 1);
}

void TlsRecords::seal(TlsContent type, ByteView plain, OutputBuffer& out) {
    DEDLOC_CHECK(direction_ == Direction::seal && plain.size() <= tls_record_bytes_max);
    const std::size_t body = plain.size() + 1 + tls_tag_bytes;
    const std::span<std::uint8_t> record = out.grow(tls_header_bytes + body);
    record[0] = static_cast<std::uint8_t>(TlsContent::application_data);
    record[1] = version_major;
    record[2] = version_minor;
    record[3] = static_cast<std::uint8_t>(body >> 8);
    record[4] = static_cast<std::uint8_t>(body);
    start(record.first(tls_header_bytes));
    EVP_CIPHER_CTX* const context = context_.get();
    std::uint8_t* const begin = record.data() + tls_header_bytes;
    std::uint8_t* const end = begin + plain.size();
    const auto inner_type = static_cast<std::uint8_t>(type);
    int size = 0;
    const bool sealed =
        (plain.empty() ||
         EVP_CipherUpdate(context, begin, &size, plain.data(), openssl_size(plain)) == 1) &&
        EVP_CipherUpdate(context, end, &size, &inner_type, 1) == 1 &&
        EVP_CipherFinal_ex(context, end + 1, &size) == 1 &&
        EVP_CIPHER_CTX_ctrl(
            context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tls_tag_bytes), end + 1) == 1;
    DEDLOC_CHECK(sealed);
}

Result<std::size_t> TlsRecords::record_size(ByteView bytes) {
    if (bytes.size() < tls_header_bytes) return std::size_t{0};
    const std::size_t body = bytes[3] * std::size_t{256} + bytes[4];
    // Whatever is inside: outside, all records after the handshake are application data.
    if (bytes[0] != static_cast<std::uint8_t>(TlsContent::application_data) ||
        bytes[1] != version_major)
        return broken("a record that is not encrypted");
    if (body > tls_record_bytes_max + tls_record_expansion_max) return broken("a record too long");
    if (body < 1 + tls_tag_bytes) return broken("a record without a type");
    return tls_header_bytes + body;
}

Result<TlsRecords::Opened> TlsRecords::open(ByteView record, std::span<std::uint8_t> place) {
    DEDLOC_CHECK(direction_ == Direction::open && place.size() >= room_for(record));
    start(record.first(tls_header_bytes));
    EVP_CIPHER_CTX* const context = context_.get();
    const ByteView body =
        record.subspan(tls_header_bytes, record.size() - tls_header_bytes - tls_tag_bytes);
    ByteView plain(place.data(), body.size() - 1);
    std::array<std::uint8_t, tls_tag_bytes> tag{};
    std::copy_n(record.end() - static_cast<std::ptrdiff_t>(tag.size()), tag.size(), tag.begin());
    std::uint8_t type = 0;
    int size = 0;
    // The last byte, if it is not padding, is the type and no part of the data.
    const bool opened =
        EVP_CIPHER_CTX_ctrl(
            context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1 &&
        (plain.empty() ||
         EVP_CipherUpdate(context, place.data(), &size, body.data(), openssl_size(plain)) == 1) &&
        EVP_CipherUpdate(context, &type, &size, &body.back(), 1) == 1 &&
        EVP_CipherFinal_ex(context, tag.data(), &size) == 1;
    if (!opened) return broken("a record was changed on its way");
    while (type == 0) {
        if (plain.empty()) return broken("a record without a type");
        type = plain.back();
        plain = plain.first(plain.size() - 1);
    }
    if (plain.size() > tls_record_bytes_max) return broken("a record too long");
    return Opened{static_cast<TlsContent>(type), plain};
}

}  // namespace dedloc::security
