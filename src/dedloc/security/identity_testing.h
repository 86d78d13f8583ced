// For tests: two people, one moment, and keys of other kinds than ours. Of the tests only.
#pragma once
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "dedloc/base/bytes.h"
#include "dedloc/base/time.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/varint.h"

namespace dedloc::security {

inline constexpr WallSeconds now = 1750000000;

inline const Identity alice = Identity::from_seed(Bytes(32, 1)).value();
inline const Identity bob = Identity::from_seed(Bytes(32, 2)).value();

// SSL_CTX_set_alpn_select_cb: a foreign server speaks what its client named first.
inline int take_first_protocol(SSL*,
                               const unsigned char** out,
                               unsigned char* size,
                               const unsigned char* offered,
                               unsigned int,
                               void*) {
    *out = offered + 1;
    *size = *offered;
    return SSL_TLSEXT_ERR_OK;
}

// Bytes of a test vector.
inline Bytes hex(const nlohmann::json& text) {
    return base::from_hex(text.get<std::string>()).value();
}

inline Bytes sign_with(EVP_PKEY* key, ByteView message) {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    Bytes signature(1024);
    std::size_t size = signature.size();
    EXPECT_EQ(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key), 1);
    EXPECT_EQ(EVP_DigestSign(context, signature.data(), &size, message.data(), message.size()), 1);
    EVP_MD_CTX_free(context);
    signature.resize(size);
    return signature;
}

// A public key that nobody has the other half of.
inline EVP_PKEY* rsa_key(std::size_t bits, std::size_t exponent_bits) {
    Bytes modulus(bits / 8, 0xff);
    Bytes exponent(exponent_bits / 8, 0xff);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_N, modulus.data(), modulus.size()),
        OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_E, exponent.data(), exponent.size()),
        OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX* const context = EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr);
    EVP_PKEY* key = nullptr;
    EXPECT_EQ(EVP_PKEY_fromdata_init(context), 1);
    EXPECT_EQ(EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params), 1);
    EVP_PKEY_CTX_free(context);
    return key;
}

// A PublicKey message around a key's SubjectPublicKeyInfo.
inline Bytes spki_message(EVP_PKEY* key, std::uint8_t type) {
    unsigned char* der = nullptr;
    const int size = i2d_PUBKEY(key, &der);
    EXPECT_GT(size, 0);
    Bytes message = {0x08, type, 0x12};
    wire::put_varint(message, static_cast<std::uint64_t>(size));
    base::append(message, {der, static_cast<std::size_t>(size)});
    OPENSSL_free(der);
    return message;
}

}  // namespace dedloc::security
