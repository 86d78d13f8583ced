#include "dedloc/security/tls_certificate.h"

#include <cmath>
#include <ctime>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "dedloc/security/openssl_rsa.h"

namespace dedloc::security {
namespace {

constexpr const char* extension_oid = "1.3.6.1.4.1.53594.1.1";
constexpr std::string_view certificate_signature_prefix = "libp2p-tls-handshake:";
constexpr const char* not_before = "19750101000000Z";
constexpr const char* not_after = "40960101000000Z";
constexpr int serial_bits = 63;
// SHA-1 and MD5 give less.
constexpr int signature_security_bits_min = 112;
constexpr std::uint8_t der_octet_string = 0x04;
constexpr std::uint8_t der_sequence = 0x30;

const ASN1_OBJECT* extension_object() {
    static const ASN1_OBJECT* const object = OBJ_txt2obj(extension_oid, /*no_name=*/1);
    return object;
}

Error bad_certificate(std::string_view rule) {
    ERR_clear_error();
    return make_error(
        ErrorKind::peer_broke_protocol, "the peer's TLS certificate is refused: {}", rule);
}

// One DER element: tag, definite length, contents.
Result<ByteView> take_der(base::ByteReader& reader, std::uint8_t expected_tag) {
    DEDLOC_TRY(const std::uint8_t tag, reader.u8());
    DEDLOC_TRY(const std::uint8_t first, reader.u8());
    std::size_t size = first;
    if (first >= 0x80) {
        size = 0;
        if (first == 0x80 || first > 0x82)
            return bad_certificate("its extension has no sensible length");
        for (int i = 0; i < (first & 0x7f); ++i) {
            DEDLOC_TRY(const std::uint8_t byte, reader.u8());
            size = size << 8 | byte;
        }
    }
    if (tag != expected_tag) return bad_certificate("its extension is not a SignedKey");
    return reader.take(size);
}

void put_der(Bytes& out, std::uint8_t tag, ByteView contents) {
    out.push_back(tag);
    const std::size_t size = contents.size();
    DEDLOC_CHECK(size <= 0xffff);
    if (size >= 0x80) out.push_back(size > 0xff ? 0x82 : 0x81);
    if (size > 0xff) out.push_back(static_cast<std::uint8_t>(size >> 8));
    out.push_back(static_cast<std::uint8_t>(size));
    base::append(out, contents);
}

struct SignedKey {
    ByteView public_key;
    ByteView signature;
};

Result<SignedKey> parse_signed_key(ByteView der) {
    base::ByteReader outer(der);
    DEDLOC_TRY(const ByteView sequence, take_der(outer, der_sequence));
    base::ByteReader inner(sequence);
    SignedKey signed_key;
    DEDLOC_TRY(signed_key.public_key, take_der(inner, der_octet_string));
    DEDLOC_TRY(signed_key.signature, take_der(inner, der_octet_string));
    if (!outer.done() || !inner.done()) return bad_certificate("bytes follow its SignedKey");
    return signed_key;
}

// "libp2p-tls-handshake:" ‖ SubjectPublicKeyInfo
Bytes bytes_to_sign(X509* certificate) {
    unsigned char* der = nullptr;
    const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    DEDLOC_CHECK(size > 0);
    Bytes bytes = to_bytes(certificate_signature_prefix);
    base::append(bytes, {der, static_cast<std::size_t>(size)});
    OPENSSL_free(der);
    return bytes;
}

// The one libp2p extension, and no critical one that is not understood.
Result<X509_EXTENSION*> find_extension(X509* certificate) {
    X509_EXTENSION* found = nullptr;
    for (int i = 0; i < X509_get_ext_count(certificate); ++i) {
        X509_EXTENSION* extension = X509_get_ext(certificate, i);
        if (OBJ_cmp(X509_EXTENSION_get_object(extension), extension_object()) == 0) {
            if (found != nullptr) return bad_certificate("it has two libp2p extensions");
            found = extension;
        } else if (X509_EXTENSION_get_critical(extension) != 0 &&
                   X509_supported_extension(extension) != 1) {
            return bad_certificate("it has a critical extension that is not understood");
        }
    }
    if (found == nullptr) return bad_certificate("it has no libp2p extension");
    return found;
}

Ok check_curve(const EVP_PKEY* key) {
    // Explicit curve parameters allow forgeries ("Whose curve is it anyway").
    char encoding[32] = "";
    if (EVP_PKEY_get_utf8_string_param(
            key, OSSL_PKEY_PARAM_EC_ENCODING, encoding, sizeof encoding, nullptr) != 1 ||
        std::string_view(encoding) != OSSL_PKEY_EC_ENCODING_GROUP)
        return bad_certificate("its curve is not a named one");
    char name[32] = "";
    if (EVP_PKEY_get_group_name(key, name, sizeof name, nullptr) != 1)
        return bad_certificate("its curve is not a named one");
    for (const std::string_view known : {"prime256v1", "secp384r1", "secp521r1"})
        if (name == known) return {};
    return bad_certificate("its curve is not one of TLS 1.3");
}

// Anybody can make us check a signature by a key of his choice: of all that OpenSSL knows some take
// a hundred times as long as those that libp2p's implementations make.
Ok check_kind_of_key(const EVP_PKEY* key) {
    switch (EVP_PKEY_get_base_id(key)) {
        case EVP_PKEY_ED25519:
            return {};
        case EVP_PKEY_EC:
            return check_curve(key);
        case EVP_PKEY_RSA:
            if (EVP_PKEY_get_bits(key) <= rsa_bits_max && has_short_exponent(key)) return {};
            return bad_certificate("its RSA key is too large");
        default:
            return bad_certificate("its key is of a kind that is not accepted");
    }
}

Ok check_key_and_signature(X509* certificate) {
    EVP_PKEY* key = X509_get0_pubkey(certificate);
    if (key == nullptr) return bad_certificate("its key cannot be read");
    DEDLOC_TRY_VOID(check_kind_of_key(key));
    int security_bits = 0;
    if (X509_get_signature_info(certificate, nullptr, nullptr, &security_bits, nullptr) != 1 ||
        security_bits < signature_security_bits_min)
        return bad_certificate("it is signed with a weak hash");
    if (X509_verify(certificate, key) != 1)
        return bad_certificate("it is not signed by its own key");
    return {};
}

Ok check_dates(X509* certificate, WallSeconds now) {
    if (!(std::abs(now) < 1e15)) return bad_certificate("our own clock is impossible");
    std::time_t time = static_cast<std::time_t>(now);
    // 0 is an error; -1: not after `time`.
    if (X509_cmp_time(X509_get0_notBefore(certificate), &time) != -1)
        return bad_certificate("it is not valid yet; is one of the two clocks wrong?");
    if (X509_cmp_time(X509_get0_notAfter(certificate), &time) != 1)
        return bad_certificate("it has expired; is one of the two clocks wrong?");
    return {};
}

void add_signed_key(X509* certificate, const Identity& identity) {
    const Bytes signature = identity.sign(bytes_to_sign(certificate));
    Bytes contents;
    put_der(contents, der_octet_string, identity.public_key().protobuf());
    put_der(contents, der_octet_string, signature);
    Bytes der;
    put_der(der, der_sequence, contents);
    ASN1_OCTET_STRING* value = ASN1_OCTET_STRING_new();
    DEDLOC_CHECK(ASN1_OCTET_STRING_set(value, der.data(), static_cast<int>(der.size())) == 1);
    X509_EXTENSION* extension =
        X509_EXTENSION_create_by_OBJ(nullptr, extension_object(), /*critical=*/0, value);
    DEDLOC_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
    ASN1_OCTET_STRING_free(value);
}

}  // namespace

TlsCertificate make_tls_certificate(const Identity& identity) {
    TlsCertificate made;
    made.key = {EVP_EC_gen("P-256"), &EVP_PKEY_free};
    made.certificate = {X509_new(), &X509_free};
    X509* certificate = made.certificate.get();
    DEDLOC_CHECK(made.key != nullptr && certificate != nullptr);
    DEDLOC_CHECK(X509_set_version(certificate, X509_VERSION_3) == 1);
    const Bytes random = secure_random(8);
    base::ByteReader reader(random);
    const std::uint64_t serial = *reader.u64_be() >> (64 - serial_bits) | 1;
    DEDLOC_CHECK(ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1);
    DEDLOC_CHECK(ASN1_TIME_set_string(X509_getm_notBefore(certificate), not_before) == 1);
    DEDLOC_CHECK(ASN1_TIME_set_string(X509_getm_notAfter(certificate), not_after) == 1);
    X509_NAME* name = X509_get_subject_name(certificate);
    DEDLOC_CHECK(X509_NAME_add_entry_by_txt(name,
                                            "O",
                                            MBSTRING_ASC,
                                            reinterpret_cast<const unsigned char*>("libp2p.io"),
                                            -1,
                                            -1,
                                            0) == 1);
    DEDLOC_CHECK(X509_set_issuer_name(certificate, name) == 1);
    DEDLOC_CHECK(X509_set_pubkey(certificate, made.key.get()) == 1);
    add_signed_key(certificate, identity);
    DEDLOC_CHECK(X509_sign(certificate, made.key.get(), EVP_sha256()) > 0);
    return made;
}

Result<PublicKey> check_tls_certificate(x509_st* certificate, WallSeconds now) {
    DEDLOC_TRY_VOID(check_dates(certificate, now));
    DEDLOC_TRY(X509_EXTENSION * extension, find_extension(certificate));
    const ASN1_OCTET_STRING* value = X509_EXTENSION_get_data(extension);
    const auto signed_key = parse_signed_key(
        {ASN1_STRING_get0_data(value), static_cast<std::size_t>(ASN1_STRING_length(value))});
    if (!signed_key) return bad_certificate(signed_key.error().message());
    auto key = PublicKey::from_protobuf(signed_key->public_key);
    if (!key) return bad_certificate(key.error().message());
    DEDLOC_TRY_VOID(check_key_and_signature(certificate));
    if (!key->verify(bytes_to_sign(certificate), signed_key->signature))
        return bad_certificate("the identity's signature in it is false");
    return key;
}

Result<PublicKey> check_tls_certificate(ByteView der, WallSeconds now) {
    const unsigned char* position = der.data();
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        d2i_X509(nullptr, &position, static_cast<long>(der.size())), &X509_free);
    if (!certificate || position != der.data() + der.size())
        return bad_certificate("it is not an X.509 certificate");
    return check_tls_certificate(certificate.get(), now);
}

}  // namespace dedloc::security
