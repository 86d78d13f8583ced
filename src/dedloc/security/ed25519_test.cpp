// libsodium's Ed25519 against RFC 8032 and OpenSSL's, and what it refuses beyond wrong signatures.

#include "dedloc/security/ed25519.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "dedloc/security/pattern_testing.h"

namespace dedloc::security {
namespace {

Bytes bytes_of(std::string_view text) { return base::from_hex(text).value(); }

// RFC 8032, 7.1, tests 1 to 3.
TEST(Ed25519, is_that_of_rfc_8032) {
    struct Vector {
        std::string_view seed, key, message, signature;
    };
    for (const Vector& vector : {
             Vector{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                    "",
                    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33b"
                    "acc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
             Vector{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                    "72",
                    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e1599"
                    "6e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
             Vector{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                    "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                    "af82",
                    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f2"
                    "90ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
         }) {
        const Ed25519Pair pair(bytes_of(vector.seed));
        const Bytes message = bytes_of(vector.message);
        EXPECT_EQ(base::to_hex(pair.public_key()), vector.key);
        EXPECT_EQ(base::to_hex(pair.sign(message)), vector.signature);
        EXPECT_TRUE(ed25519_verify(pair.public_key(), message, bytes_of(vector.signature)));
    }
}

TEST(Ed25519, signs_as_openssl_does_byte_for_byte) {
    for (std::size_t size = 0; size < 400; size += 57) {
        const Bytes seed(ed25519_seed_bytes, static_cast<std::uint8_t>(size));
        const Bytes message = pattern(size);
        const Ed25519Pair pair(seed);
        EVP_PKEY* const other =
            EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size());
        EVP_MD_CTX* const context = EVP_MD_CTX_new();
        Bytes signature(ed25519_signature_bytes);
        std::size_t length = signature.size();
        ASSERT_EQ(EVP_DigestSignInit(context, nullptr, nullptr, nullptr, other), 1);
        ASSERT_EQ(
            EVP_DigestSign(context, signature.data(), &length, message.data(), message.size()), 1);
        EXPECT_EQ(pair.sign(message), signature) << size;
        EXPECT_TRUE(ed25519_verify(pair.public_key(), message, signature)) << size;
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(other);
    }
}

TEST(Ed25519, a_changed_byte_anywhere_and_another_length_are_refused) {
    const Ed25519Pair pair(Bytes(ed25519_seed_bytes, 5));
    const Bytes message = pattern(40);
    const Bytes signature = pair.sign(message);
    for (std::size_t at = 0; at < signature.size(); ++at) {
        Bytes changed = signature;
        changed[at] ^= 0x10;
        EXPECT_FALSE(ed25519_verify(pair.public_key(), message, changed)) << at;
    }
    EXPECT_FALSE(ed25519_verify(pair.public_key(), message, {}));
    EXPECT_FALSE(ed25519_verify(pair.public_key(), message, ByteView(signature).first(63)));
    Bytes longer = signature;
    longer.push_back(0);
    EXPECT_FALSE(ed25519_verify(pair.public_key(), message, longer));
}

// Adding the group's order to the number in a signature gives a second one that fits the equation:
// whoever saw the first could make it, and a certificate would have two forms.
TEST(Ed25519, a_signature_has_no_second_form) {
    const Ed25519Pair pair(Bytes(ed25519_seed_bytes, 6));
    Bytes signature = pair.sign(as_bytes("vote"));
    const Bytes order =
        bytes_of("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    unsigned carry = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        carry += signature[32 + i] + order[i];
        signature[32 + i] = static_cast<std::uint8_t>(carry);
        carry >>= 8;
    }
    ASSERT_EQ(carry, 0u);
    EXPECT_FALSE(ed25519_verify(pair.public_key(), as_bytes("vote"), signature));
}

// With the neutral element for a key, R = neutral and S = 0 fits every message.
TEST(Ed25519, a_key_for_which_one_signature_fits_everything_is_refused) {
    Bytes neutral(ed25519_key_bytes, 0);
    neutral[0] = 1;
    Bytes signature(ed25519_signature_bytes, 0);
    signature[0] = 1;
    EXPECT_FALSE(ed25519_verify(neutral, as_bytes("one"), signature));
    EXPECT_FALSE(ed25519_verify(neutral, as_bytes("another"), signature));
}

}  // namespace
}  // namespace dedloc::security
