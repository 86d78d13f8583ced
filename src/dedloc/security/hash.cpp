#include "dedloc/security/hash.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_fetch.h"

namespace dedloc::security {
namespace {

constexpr std::size_t hmac_block_bytes = 64;

const EVP_MD* sha256_algorithm() {
    static const EVP_MD* const algorithm = fetch_hash("SHA256");
    return algorithm;
}

const EVP_MD* sha1_algorithm() {
    static const EVP_MD* const algorithm = fetch_hash("SHA1");
    return algorithm;
}

template <std::size_t size>
std::array<std::uint8_t, size> hash_once(const EVP_MD* algorithm, ByteView bytes) {
    thread_local const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
        EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    std::array<std::uint8_t, size> out{};
    DEDLOC_CHECK(EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1);
    DEDLOC_CHECK(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1);
    DEDLOC_CHECK(EVP_DigestFinal_ex(context.get(), out.data(), nullptr) == 1);
    return out;
}

}  // namespace

Digest sha256(ByteView bytes) {
    Digest digest;
    digest.bytes = hash_once<32>(sha256_algorithm(), bytes);
    return digest;
}

Sha1 sha1(ByteView bytes) { return hash_once<20>(sha1_algorithm(), bytes); }

Digest hmac_sha256(ByteView key, ByteView message) {
    std::array<std::uint8_t, hmac_block_bytes> block{};
    if (key.size() > block.size()) {
        const Digest short_key = sha256(key);
        std::copy(short_key.bytes.begin(), short_key.bytes.end(), block.begin());
    } else {
        std::copy(key.begin(), key.end(), block.begin());
    }
    for (std::uint8_t& byte : block) byte ^= 0x36;
    Sha256 hash;
    const Digest inner = hash.update(ByteView(block)).update(message).finish();
    for (std::uint8_t& byte : block) byte ^= 0x36 ^ 0x5c;
    const Digest outer = hash.update(ByteView(block)).update(inner.view()).finish();
    OPENSSL_cleanse(block.data(), block.size());
    return outer;
}

bool equal_in_constant_time(ByteView a, ByteView b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
    DEDLOC_CHECK(EVP_DigestInit_ex(context_.get(), sha256_algorithm(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(ByteView bytes) {
    DEDLOC_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
    return *this;
}

Digest Sha256::finish() {
    Digest digest;
    DEDLOC_CHECK(EVP_DigestFinal_ex(context_.get(), digest.bytes.data(), nullptr) == 1);
    DEDLOC_CHECK(EVP_DigestInit_ex(context_.get(), nullptr, nullptr) == 1);
    return digest;
}

void secure_random(std::span<std::uint8_t> out) {
    // RAND_bytes takes an int.
    constexpr std::size_t piece_bytes_max = 1 << 20;
    while (!out.empty()) {
        const std::size_t piece = std::min(out.size(), piece_bytes_max);
        DEDLOC_CHECK(RAND_bytes(out.data(), static_cast<int>(piece)) == 1);
        out = out.subspan(piece);
    }
}

Bytes secure_random(std::size_t count) {
    Bytes bytes(count);
    secure_random(std::span<std::uint8_t>(bytes));
    return bytes;
}

}  // namespace dedloc::security
