// OpenSSL's cipher and the one with vectors, where this machine has it, against each other.

#include "dedloc/security/record_cipher.h"

#include <gtest/gtest.h>

#include "dedloc/security/pattern_testing.h"

namespace dedloc::security {
namespace {

constexpr RecordCipher::Nonce nonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
const Bytes header{23, 3, 3, 64, 17};

using Make = std::unique_ptr<RecordCipher> (*)(Aead, ByteView, Direction);

Bytes seal_by(RecordCipher& cipher, ByteView plain, std::uint8_t type) {
    Bytes sealed(plain.size() + 1 + tls_tag_bytes);
    cipher.seal(nonce, header, plain, type, sealed.data());
    return sealed;
}

std::optional<std::uint8_t> open_by(RecordCipher& cipher, ByteView sealed, Bytes& plain) {
    plain.assign(sealed.size() - 1 - tls_tag_bytes, 0);
    return cipher.open(nonce, header, sealed, plain.data());
}

class RecordCiphers : public testing::TestWithParam<Aead> {
  protected:
    std::unique_ptr<RecordCipher> make(Make function, Direction direction) {
        return function(GetParam(), pattern(key_bytes_of(GetParam())), direction);
    }
    bool has_vectors() { return make(make_vector_cipher, Direction::seal) != nullptr; }
};

TEST_P(RecordCiphers, what_one_implementation_seals_the_other_opens) {
    if (GetParam() == Aead::chacha20_poly1305) {
        EXPECT_FALSE(has_vectors());
        return;
    }
    if (!has_vectors()) GTEST_SKIP() << "OpenSSL is as fast on this processor";
    for (const std::size_t size :
         {0u, 1u, 15u, 16u, 17u, 255u, 256u, 257u, 1000u, 16383u, 16384u}) {
        const Bytes plain = pattern(size);
        Bytes opened;
        const Bytes by_vectors = seal_by(*make(make_vector_cipher, Direction::seal), plain, 23);
        EXPECT_EQ(by_vectors, seal_by(*make(make_openssl_cipher, Direction::seal), plain, 23))
            << size;
        EXPECT_EQ(open_by(*make(make_openssl_cipher, Direction::open), by_vectors, opened), 23);
        EXPECT_EQ(opened, plain);
        EXPECT_EQ(open_by(*make(make_vector_cipher, Direction::open), by_vectors, opened), 23);
        EXPECT_EQ(opened, plain);
    }
}

TEST_P(RecordCiphers, neither_opens_what_was_changed_anywhere) {
    for (const Make function : {make_openssl_cipher, make_vector_cipher}) {
        const auto cipher = make(function, Direction::open);
        if (!cipher) continue;
        const Bytes sealed = seal_by(*make(function, Direction::seal), pattern(40), 23);
        Bytes opened;
        for (std::size_t i = 0; i < sealed.size(); ++i) {
            Bytes changed = sealed;
            changed[i] ^= 0x10;
            EXPECT_FALSE(open_by(*cipher, changed, opened)) << i;
        }
        // The same cipher still opens what is right.
        EXPECT_EQ(open_by(*cipher, sealed, opened), 23);
        EXPECT_EQ(opened, pattern(40));
        RecordCipher::Nonce other = nonce;
        other[11] ^= 1;
        EXPECT_FALSE(cipher->open(other, header, sealed, opened.data()));
        EXPECT_FALSE(cipher->open(nonce, Bytes{23, 3, 3, 64, 18}, sealed, opened.data()));
    }
}

TEST_P(RecordCiphers, the_faster_one_is_taken) {
    const auto taken = make(make_record_cipher, Direction::seal);
    ASSERT_TRUE(taken);
    const RecordCipher& cipher = *taken;
    const auto best =
        make(has_vectors() ? make_vector_cipher : make_openssl_cipher, Direction::seal);
    const RecordCipher& expected = *best;
    EXPECT_EQ(typeid(cipher), typeid(expected));
}

INSTANTIATE_TEST_SUITE_P(Suites,
                         RecordCiphers,
                         testing::Values(Aead::aes_128_gcm,
                                         Aead::aes_256_gcm,
                                         Aead::chacha20_poly1305),
                         [](const auto& suite) {
                             switch (suite.param) {
                                 case Aead::aes_128_gcm:
                                     return "aes_128_gcm";
                                 case Aead::aes_256_gcm:
                                     return "aes_256_gcm";
                                 case Aead::chacha20_poly1305:
                                     break;
                             }
                             return "chacha20_poly1305";
                         });

}  // namespace
}  // namespace dedloc::security
