#include "dedloc/security/tls_records.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_fetch.h"
#include "dedloc/security/openssl_size.h"

namespace dedloc::security {
namespace {

// Records have the version number of TLS 1.2, for old machines on the way.
constexpr std::uint8_t version_major = 3;
constexpr std::uint8_t version_minor = 3;

Error broken(std::string_view rule) {
    return make_error(ErrorKind::peer_broke_protocol, "TLS connection failed: {}", rule);
}

}  // namespace

std::optional<TlsSuite> TlsSuite::by_name(std::string_view name) {
    static const EVP_MD* const sha256 = fetch_hash("SHA2-256");
    static const EVP_MD* const sha384 = fetch_hash("SHA2-384");
    if (name == "TLS_AES_128_GCM_SHA256") return TlsSuite{Aead::aes_128_gcm, sha256};
    if (name == "TLS_AES_256_GCM_SHA384") return TlsSuite{Aead::aes_256_gcm, sha384};
    if (name == "TLS_CHACHA20_POLY1305_SHA256") return TlsSuite{Aead::chacha20_poly1305, sha256};
    return std::nullopt;
}

// ----------------------------------------------------------------------------------------- keys

TlsRecords::TlsRecords(const TlsSuite& suite, Bytes secret, Direction direction)
    : suite_(suite), direction_(direction), secret_(std::move(secret)) {
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
    Bytes key = expand("key", key_bytes_of(suite_.aead));
    const Bytes iv = expand("iv", iv_.size());
    std::copy(iv.begin(), iv.end(), iv_.begin());
    sequence_ = 0;
    cipher_ = make_record_cipher(suite_.aead, key, direction_);
    OPENSSL_cleanse(key.data(), key.size());
}

void TlsRecords::update_key() {
    Bytes next = expand("traffic upd", secret_.size());
    OPENSSL_cleanse(secret_.data(), secret_.size());
    secret_ = std::move(next);
    make_key();
}

// -------------------------------------------------------------------------------------- records

RecordCipher::Nonce TlsRecords::next_nonce() {
    RecordCipher::Nonce nonce = iv_;
    for (std::size_t i = 0; i < 8; ++i)
        nonce[4 + i] = static_cast<std::uint8_t>(nonce[4 + i] ^ (sequence_ >> (56 - 8 * i)));
    ++sequence_;
    return nonce;
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
    cipher_->seal(next_nonce(),
                  record.first(tls_header_bytes),
                  plain,
                  static_cast<std::uint8_t>(type),
                  record.data() + tls_header_bytes);
}

Result<std::size_t> TlsRecords::record_size(ByteView bytes) {
    if (bytes.size() < tls_header_bytes) return std::size_t{0};
    const std::size_t body = bytes[3] * std::size_t{256} + bytes[4];
    // The type outside says nothing of the inside: all records after the handshake are application
    // data.
    if (bytes[0] != static_cast<std::uint8_t>(TlsContent::application_data) ||
        bytes[1] != version_major)
        return broken("a record that is not encrypted");
    if (body > tls_record_bytes_max + tls_record_expansion_max) return broken("a record too long");
    if (body < 1 + tls_tag_bytes) return broken("a record without a type");
    return tls_header_bytes + body;
}

Result<TlsRecords::Opened> TlsRecords::open(ByteView record, std::span<std::uint8_t> place) {
    DEDLOC_CHECK(direction_ == Direction::open && place.size() >= room_for(record));
    ByteView plain(place.data(), room_for(record));
    // The last byte, if it is not padding, is the type and no part of the data.
    const auto last = cipher_->open(next_nonce(),
                                    record.first(tls_header_bytes),
                                    record.subspan(tls_header_bytes),
                                    place.data());
    if (!last) return broken("a record was changed on its way");
    std::uint8_t type = *last;
    while (type == 0) {
        if (plain.empty()) return broken("a record without a type");
        type = plain.back();
        plain = plain.first(plain.size() - 1);
    }
    if (plain.size() > tls_record_bytes_max) return broken("a record too long");
    return Opened{static_cast<TlsContent>(type), plain};
}

}  // namespace dedloc::security
