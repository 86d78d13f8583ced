#include "dedloc/security/rsa_pss.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include "dedloc/base/check.h"
#include "dedloc/security/openssl_rsa.h"
#include "dedloc/security/openssl_size.h"

namespace dedloc::security {
namespace {

using SharedKey = std::shared_ptr<evp_pkey_st>;

constexpr std::string_view ssh_rsa = "ssh-rsa";
constexpr std::size_t openssh_key_bytes_max = 2048;
constexpr std::size_t signature_text_bytes_max = 1024;
constexpr std::size_t length_bytes = 4;

SharedKey owned_key(EVP_PKEY* key) { return {key, &EVP_PKEY_free}; }

std::string to_base64(ByteView bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(
        reinterpret_cast<unsigned char*>(text.data()), bytes.data(), openssl_size(bytes));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

// As Python's b64decode without validation does, but for characters that are none: those are
// refused here, and whoever signed did not write them.
std::optional<Bytes> from_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) return std::nullopt;
    Bytes bytes(text.size() / 4 * 3);
    const int size = EVP_DecodeBlock(bytes.data(),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
    if (size < 0) return std::nullopt;
    std::size_t padding = 0;
    while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
    bytes.resize(static_cast<std::size_t>(size) - padding);
    return bytes;
}

Error no_key() {
    ERR_clear_error();
    return make_error(ErrorKind::bad_input, "this is no RSA key as OpenSSH writes it");
}

// One length and as many bytes, from the front of `rest`.
std::optional<ByteView> next_field(ByteView& rest) {
    if (rest.size() < length_bytes) return std::nullopt;
    const std::size_t size = (std::size_t{rest[0]} << 24) | (std::size_t{rest[1]} << 16) |
                             (std::size_t{rest[2]} << 8) | rest[3];
    if (size > rest.size() - length_bytes) return std::nullopt;
    const ByteView field = rest.subspan(length_bytes, size);
    rest = rest.subspan(length_bytes + size);
    return field;
}

void put_field(Bytes& out, ByteView field) {
    for (int shift = 24; shift >= 0; shift -= 8)
        out.push_back(static_cast<std::uint8_t>(field.size() >> shift));
    out.insert(out.end(), field.begin(), field.end());
}

// A positive number: a zero goes before a first bit that is set.
Bytes number_of(const BIGNUM* number) {
    Bytes bytes(static_cast<std::size_t>(BN_num_bytes(number)) + 1);
    BN_bn2bin(number, bytes.data() + 1);
    if (bytes.size() > 1 && bytes[1] < 0x80) bytes.erase(bytes.begin());
    return bytes;
}

SharedKey key_of(ByteView exponent, ByteView modulus) {
    BIGNUM* e = BN_bin2bn(exponent.data(), openssl_size(exponent), nullptr);
    BIGNUM* n = BN_bin2bn(modulus.data(), openssl_size(modulus), nullptr);
    OSSL_PARAM_BLD* builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n);
    OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e);
    OSSL_PARAM* parameters = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr);
    EVP_PKEY* key = nullptr;
    if (EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1)
        key = nullptr;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    BN_free(e);
    BN_free(n);
    return owned_key(key);
}

struct Digesting {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~Digesting() { EVP_MD_CTX_free(context); }
};

bool use_pss(EVP_PKEY_CTX* key, int salt) {
    return EVP_PKEY_CTX_set_rsa_padding(key, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(key, salt) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(key, EVP_sha256()) == 1;
}

}  // namespace

Result<RsaPublicKey> RsaPublicKey::from_openssh(std::string_view text) {
    if (text.size() > openssh_key_bytes_max || !text.starts_with("ssh-rsa ")) return no_key();
    text.remove_prefix(ssh_rsa.size() + 1);
    const auto blob = from_base64(text.substr(0, text.find(' ')));  // a comment may follow
    if (!blob) return no_key();
    ByteView rest = *blob;
    const auto type = next_field(rest);
    const auto exponent = next_field(rest);
    const auto modulus = next_field(rest);
    if (!type || !exponent || !modulus || !rest.empty() || base::as_text(*type) != ssh_rsa)
        return no_key();
    SharedKey key = key_of(*exponent, *modulus);
    if (!key) return no_key();
    const int bits = EVP_PKEY_get_bits(key.get());
    if (bits < rsa_bits_min || bits > rsa_bits_max || !has_short_exponent(key.get()))
        return no_key();
    return RsaPublicKey(std::move(key));
}

bool RsaPublicKey::verify(ByteView message, std::string_view signature) const {
    if (signature.size() > signature_text_bytes_max) return false;
    const auto bytes = from_base64(signature);
    if (!bytes) return false;
    const Digesting digest;
    EVP_PKEY_CTX* key = nullptr;
    const bool good =
        EVP_DigestVerifyInit(digest.context, &key, EVP_sha256(), nullptr, key_.get()) == 1 &&
        use_pss(key, RSA_PSS_SALTLEN_MAX) &&
        EVP_DigestVerify(
            digest.context, bytes->data(), bytes->size(), message.data(), message.size()) == 1;
    ERR_clear_error();
    return good;
}

RsaPrivateKey RsaPrivateKey::generate() {
    SharedKey key = owned_key(EVP_RSA_gen(static_cast<unsigned>(rsa_bits_min)));
    DEDLOC_CHECK(key != nullptr, "OpenSSL makes no RSA key");
    return RsaPrivateKey(std::move(key));
}

std::string RsaPrivateKey::public_openssh() const {
    Bytes blob;
    put_field(blob, base::as_bytes(ssh_rsa));
    for (const char* name : {OSSL_PKEY_PARAM_RSA_E, OSSL_PKEY_PARAM_RSA_N}) {
        BIGNUM* number = nullptr;
        DEDLOC_CHECK(EVP_PKEY_get_bn_param(key_.get(), name, &number) == 1);
        put_field(blob, number_of(number));
        BN_free(number);
    }
    return std::string(ssh_rsa) + " " + to_base64(blob);
}

std::string RsaPrivateKey::sign(ByteView message) const {
    const Digesting digest;
    EVP_PKEY_CTX* key = nullptr;
    std::size_t size = 0;
    Bytes signature(static_cast<std::size_t>(EVP_PKEY_get_size(key_.get())));
    size = signature.size();
    const bool good =
        EVP_DigestSignInit(digest.context, &key, EVP_sha256(), nullptr, key_.get()) == 1 &&
        use_pss(key, RSA_PSS_SALTLEN_MAX) &&
        EVP_DigestSign(digest.context, signature.data(), &size, message.data(), message.size()) ==
            1;
    DEDLOC_CHECK(good, "OpenSSL signs nothing");
    signature.resize(size);
    return to_base64(signature);
}

}  // namespace dedloc::security
