#include "dedloc/security/tls_certificate.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "dedloc/security/identity_testing.h"

namespace dedloc::security {
namespace {

void sign_again(const TlsCertificate& certificate, const EVP_MD* hash = EVP_sha256()) {
    ASSERT_GT(X509_sign(certificate.certificate.get(), certificate.key.get(), hash), 0);
}

void expect_refused(const TlsCertificate& certificate, std::string_view rule) {
    const auto key = check_tls_certificate(certificate.certificate.get(), now);
    ASSERT_FALSE(key) << rule;
    EXPECT_EQ(key.error().kind(), ErrorKind::peer_broke_protocol);
    EXPECT_NE(key.error().message().find(rule), std::string::npos) << key.error().message();
}

TEST(TlsCertificate, the_specifications_certificates_are_judged_as_it_says) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/libp2p_vectors.json");
    const auto vectors = nlohmann::json::parse(file);
    ASSERT_EQ(vectors.at("certificates").size(), 4u);
    for (const auto& vector : vectors.at("certificates")) {
        const std::string kind = vector.at("kind");
        const Bytes der = base::from_hex(vector.at("der").get<std::string>()).value();
        const auto key = check_tls_certificate(der, now);
        EXPECT_EQ(key.has_value(), kind != "invalid") << kind;
        if (key) {
            EXPECT_EQ(key->peer_id().text(), vector.at("peer_id").get<std::string>()) << kind;
            EXPECT_FALSE(check_tls_certificate(ByteView(der).first(der.size() - 1), now));
        }
    }
}

TEST(TlsCertificate, ours_names_its_identity_and_its_key_is_fresh) {
    const TlsCertificate first = make_tls_certificate(alice);
    const auto key = check_tls_certificate(first.certificate.get(), now);
    ASSERT_TRUE(key) << key.error().message();
    EXPECT_EQ(key->peer_id(), alice.id());
    const TlsCertificate second = make_tls_certificate(alice);
    EXPECT_EQ(EVP_PKEY_eq(first.key.get(), second.key.get()), 0);
    EXPECT_STREQ(OBJ_nid2sn(X509_get_signature_nid(first.certificate.get())), "ecdsa-with-SHA256");
}

TEST(TlsCertificate, dates_are_checked_against_the_clock_that_was_given) {
    const TlsCertificate certificate = make_tls_certificate(alice);
    X509* x509 = certificate.certificate.get();
    ASSERT_NE(ASN1_TIME_set(X509_getm_notBefore(x509), static_cast<time_t>(now) - 10), nullptr);
    ASSERT_NE(ASN1_TIME_set(X509_getm_notAfter(x509), static_cast<time_t>(now) + 10), nullptr);
    sign_again(certificate);
    EXPECT_TRUE(check_tls_certificate(x509, now));
    EXPECT_FALSE(check_tls_certificate(x509, now - 11));
    EXPECT_FALSE(check_tls_certificate(x509, now + 11));
    EXPECT_FALSE(check_tls_certificate(x509, 1e300));
}

TEST(TlsCertificate, without_the_extension_or_with_a_strange_one_it_is_refused) {
    TlsCertificate certificate = make_tls_certificate(alice);
    X509_EXTENSION_free(X509_delete_ext(certificate.certificate.get(), 0));
    sign_again(certificate);
    expect_refused(certificate, "no libp2p extension");

    certificate = make_tls_certificate(alice);
    X509_EXTENSION* extension = X509_get_ext(certificate.certificate.get(), 0);
    ASSERT_EQ(X509_add_ext(certificate.certificate.get(), extension, -1), 1);
    sign_again(certificate);
    expect_refused(certificate, "two libp2p extensions");

    for (const char* contents : {"",
                                 "30",
                                 "3000",
                                 "300404000401",
                                 "31060401610401",
                                 "308000",
                                 "300604016104016200",
                                 "0400"}) {
        certificate = make_tls_certificate(alice);
        const Bytes der = base::from_hex(contents).value();
        ASN1_OCTET_STRING* value =
            X509_EXTENSION_get_data(X509_get_ext(certificate.certificate.get(), 0));
        ASSERT_EQ(ASN1_OCTET_STRING_set(value, der.data(), static_cast<int>(der.size())), 1);
        sign_again(certificate);
        EXPECT_FALSE(check_tls_certificate(certificate.certificate.get(), now)) << contents;
    }
}

TEST(TlsCertificate, an_extension_from_another_certificate_is_refused) {
    const TlsCertificate victim = make_tls_certificate(bob);
    const TlsCertificate thief = make_tls_certificate(alice);
    X509_EXTENSION_free(X509_delete_ext(thief.certificate.get(), 0));
    ASSERT_EQ(X509_add_ext(thief.certificate.get(), X509_get_ext(victim.certificate.get(), 0), -1),
              1);
    sign_again(thief);
    expect_refused(thief, "signature in it is false");
}

TEST(TlsCertificate, one_that_is_not_signed_by_its_own_key_is_refused) {
    const TlsCertificate certificate = make_tls_certificate(alice);
    const TlsCertificate other = make_tls_certificate(alice);
    ASSERT_GT(X509_sign(certificate.certificate.get(), other.key.get(), EVP_sha256()), 0);
    expect_refused(certificate, "not signed by its own key");
}

TEST(TlsCertificate, weak_hashes_and_unknown_critical_extensions_are_refused) {
    TlsCertificate certificate = make_tls_certificate(alice);
    sign_again(certificate, EVP_sha1());
    expect_refused(certificate, "weak hash");
    for (const bool critical : {false, true}) {
        certificate = make_tls_certificate(alice);
        ASN1_OBJECT* object = OBJ_txt2obj("1.2.3.4.5", 1);
        ASN1_OCTET_STRING* value = ASN1_OCTET_STRING_new();
        ASSERT_EQ(ASN1_OCTET_STRING_set(value, reinterpret_cast<const unsigned char*>("x"), 1), 1);
        X509_EXTENSION* extension = X509_EXTENSION_create_by_OBJ(nullptr, object, critical, value);
        ASSERT_EQ(X509_add_ext(certificate.certificate.get(), extension, -1), 1);
        X509_EXTENSION_free(extension);
        ASN1_OCTET_STRING_free(value);
        ASN1_OBJECT_free(object);
        sign_again(certificate);
        EXPECT_EQ(check_tls_certificate(certificate.certificate.get(), now).has_value(), !critical);
    }
}

// `key`'s certificate; alice signs the key as it stands there, so only the key may be wrong.
TlsCertificate certificate_with(EVP_PKEY* key, const EVP_MD* hash = EVP_sha256()) {
    TlsCertificate certificate;
    certificate.key = {key, &EVP_PKEY_free};
    const TlsCertificate usual = make_tls_certificate(alice);
    certificate.certificate = {X509_dup(usual.certificate.get()), &X509_free};
    X509* const x509 = certificate.certificate.get();
    EXPECT_EQ(X509_set_pubkey(x509, key), 1);
    unsigned char* der = nullptr;
    const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x509), &der);
    Bytes covered = to_bytes("libp2p-tls-handshake:");
    base::append(covered, {der, static_cast<std::size_t>(size)});
    OPENSSL_free(der);
    ASN1_OCTET_STRING* value = X509_EXTENSION_get_data(X509_get_ext(x509, 0));
    Bytes contents(ASN1_STRING_get0_data(value),
                   ASN1_STRING_get0_data(value) + ASN1_STRING_length(value));
    const Bytes signature = alice.sign(covered);
    std::copy(signature.begin(), signature.end(), contents.end() - 64);
    EXPECT_EQ(ASN1_OCTET_STRING_set(value, contents.data(), static_cast<int>(contents.size())), 1);
    sign_again(certificate, hash);
    return certificate;
}

// As it arrives.
Result<PublicKey> check_as_sent(const TlsCertificate& certificate) {
    unsigned char* whole = nullptr;
    const int size = i2d_X509(certificate.certificate.get(), &whole);
    EXPECT_GT(size, 0);
    auto key = check_tls_certificate({whole, static_cast<std::size_t>(size)}, now);
    OPENSSL_free(whole);
    return key;
}

TEST(TlsCertificate, explicit_curve_parameters_are_refused) {
    EVP_PKEY* const curve = EVP_EC_gen("P-256");
    ASSERT_EQ(EVP_PKEY_set_utf8_string_param(curve, "encoding", "explicit"), 1);
    const auto key = check_as_sent(certificate_with(curve));
    ASSERT_FALSE(key);
    EXPECT_NE(key.error().message().find("curve"), std::string::npos) << key.error().message();
}

TEST(TlsCertificate, the_kinds_of_keys_that_implementations_make_are_accepted) {
    for (const char* curve : {"P-256", "P-384", "P-521"}) {
        const auto key = check_as_sent(certificate_with(EVP_EC_gen(curve)));
        EXPECT_TRUE(key) << curve << ": " << key.error().message();
    }
    EVP_PKEY* const edwards = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    EXPECT_TRUE(check_as_sent(certificate_with(edwards, nullptr)));
    EXPECT_TRUE(check_as_sent(certificate_with(EVP_RSA_gen(2048))));
}

TEST(TlsCertificate, kinds_by_which_checking_is_dear_are_refused) {
    for (const char* curve : {"sect571r1", "brainpoolP512t1"}) {
        const auto key = check_as_sent(certificate_with(EVP_EC_gen(curve)));
        ASSERT_FALSE(key) << curve;
        EXPECT_NE(key.error().message().find("curve"), std::string::npos) << key.error().message();
    }
    EVP_PKEY* const other_edwards = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED448");
    EXPECT_FALSE(check_as_sent(certificate_with(other_edwards, nullptr)));
    const TlsCertificate large = make_tls_certificate(alice);
    EVP_PKEY* const rsa = rsa_key(8192, 24);
    ASSERT_EQ(X509_set_pubkey(large.certificate.get(), rsa), 1);
    EVP_PKEY_free(rsa);
    expect_refused(large, "too large");
}

}  // namespace
}  // namespace dedloc::security
