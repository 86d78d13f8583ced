#include "dedloc/security/identity.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "dedloc/base/random.h"
#include "dedloc/security/identity_testing.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/varint.h"

namespace dedloc::security {
namespace {

nlohmann::json vectors(const std::string& name) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/" + name);
    return nlohmann::json::parse(file);
}

void expect_verifies(const PublicKey& key, Bytes message, Bytes signature) {
    EXPECT_TRUE(key.verify(message, signature));
    Bytes other = message;
    other[0] ^= 1;
    EXPECT_FALSE(key.verify(other, signature));
    signature[signature.size() - 1] ^= 1;
    EXPECT_FALSE(key.verify(message, signature));
    EXPECT_FALSE(key.verify(message, {}));
}

TEST(Identity, the_specifications_ed25519_key_reads_and_writes) {
    const auto ids = vectors("libp2p_vectors.json")["peer_ids"];
    const Bytes protobuf = hex(ids["ed25519_private"]);
    const auto identity = Identity::from_private_key(protobuf);
    ASSERT_TRUE(identity) << identity.error().message();
    EXPECT_EQ(base::to_hex(identity->public_key().protobuf()),
              ids["ed25519_public"].get<std::string>());
    EXPECT_EQ(identity->private_key(), protobuf);
}

TEST(Identity, private_keys_that_contradict_themselves_are_refused) {
    const auto ids = vectors("libp2p_vectors.json")["peer_ids"];
    Bytes protobuf = hex(ids["ed25519_private"]);
    protobuf.back() ^= 1;
    EXPECT_EQ(Identity::from_private_key(protobuf).error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(Identity::from_private_key(as_bytes("x")).error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(Identity::from_seed(Bytes(31)).error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(Identity::from_private_key(hex(ids["secp256k1_private"])).error().kind(),
              ErrorKind::unsupported);
    // The old form repeats the public half.
    Bytes old = {0x08, 0x01, 0x12, 96};
    const Bytes good = hex(ids["ed25519_private"]);
    base::append(old, ByteView(good).subspan(4));
    base::append(old, ByteView(good).subspan(36));
    EXPECT_TRUE(Identity::from_private_key(old));
    old.back() ^= 1;
    EXPECT_FALSE(Identity::from_private_key(old));
}

TEST(Identity, every_kind_of_public_key_of_the_specification_is_read) {
    const auto ids = vectors("libp2p_vectors.json")["peer_ids"];
    for (const auto& [name, type] : {std::pair{"ecdsa_public", KeyType::ecdsa},
                                     std::pair{"ed25519_public", KeyType::ed25519},
                                     std::pair{"secp256k1_public", KeyType::secp256k1},
                                     std::pair{"rsa_public", KeyType::rsa}}) {
        const Bytes protobuf = hex(ids[name]);
        const auto key = PublicKey::from_protobuf(protobuf);
        ASSERT_TRUE(key) << name << ": " << key.error().message();
        EXPECT_EQ(key->type(), type);
        EXPECT_EQ(key->protobuf(), protobuf) << name;
        EXPECT_EQ(key->peer_id().bytes()[0], protobuf.size() <= 42 ? 0x00 : 0x12) << name;
        const auto from_id = PublicKey::from_peer_id(key->peer_id());
        EXPECT_EQ(from_id.has_value(), protobuf.size() <= 42) << name;
        // A byte more, or one less, is another message or none.
        for (std::size_t size = 0; size < protobuf.size(); ++size)
            EXPECT_FALSE(PublicKey::from_protobuf(ByteView(protobuf).first(size))) << name;
    }
    EXPECT_FALSE(PublicKey::from_protobuf(Bytes(public_key_bytes_max + 1)));
    EXPECT_EQ(PublicKey::from_protobuf(*base::from_hex("080912020000")).error().kind(),
              ErrorKind::unsupported);
}

TEST(Identity, go_libp2ps_keys_have_its_peer_ids_and_its_signatures_verify) {
    const auto keys = vectors("identity_vectors.json")["keys"];
    ASSERT_EQ(keys.size(), 5u);
    for (const auto& golden : keys) {
        const auto kind = golden["kind"].get<std::string>();
        const auto key = PublicKey::from_protobuf(hex(golden["public_key"]));
        ASSERT_TRUE(key) << kind << ": " << key.error().message();
        EXPECT_EQ(key->peer_id().text(), golden["peer_id"].get<std::string>()) << kind;
        EXPECT_EQ(PeerId::from_text(golden["peer_id"].get<std::string>()).value(), key->peer_id());
        expect_verifies(
            *key, to_bytes(golden["message"].get<std::string>()), hex(golden["signature"]));
    }
    // One peer's signature is not another's.
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto key = PublicKey::from_protobuf(hex(keys[i]["public_key"]));
        const auto& other = keys[(i + 1) % keys.size()];
        EXPECT_FALSE(
            key->verify(as_bytes(other["message"].get<std::string>()), hex(other["signature"])));
    }
}

TEST(Identity, hiveminds_rsa_identity_has_hiveminds_peer_id_and_its_signatures_verify) {
    const auto rsa = vectors("hivemind_vectors.json")["rsa"];
    const Bytes der = hex(rsa["private_key_pkcs1_der"]);
    const unsigned char* position = der.data();
    EVP_PKEY* pair =
        d2i_PrivateKey(EVP_PKEY_RSA, nullptr, &position, static_cast<long>(der.size()));
    ASSERT_NE(pair, nullptr);
    const auto key = PublicKey::from_protobuf(spki_message(pair, 0));
    ASSERT_TRUE(key) << key.error().message();
    EXPECT_EQ(key->peer_id().text(), rsa["peer_id_base58"].get<std::string>());
    expect_verifies(*key, to_bytes("message"), sign_with(pair, as_bytes("message")));
    EVP_PKEY_free(pair);
}

TEST(Identity, ecdsa_and_secp256k1_signatures_verify) {
    EVP_PKEY* p256 = EVP_EC_gen("P-256");
    const auto ecdsa = PublicKey::from_protobuf(spki_message(p256, 3));
    ASSERT_TRUE(ecdsa) << ecdsa.error().message();
    expect_verifies(*ecdsa, to_bytes("message"), sign_with(p256, as_bytes("message")));
    EVP_PKEY_free(p256);

    EVP_PKEY* bitcoin = EVP_EC_gen("secp256k1");
    ASSERT_EQ(EVP_PKEY_set_utf8_string_param(
                  bitcoin, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "compressed"),
              1);
    Bytes protobuf = {0x08, 0x02, 0x12, 33};
    Bytes point(65);
    std::size_t size = 0;
    ASSERT_EQ(EVP_PKEY_get_octet_string_param(
                  bitcoin, OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size(), &size),
              1);
    point[0] = static_cast<std::uint8_t>(size == 65 ? 2 + (point[64] & 1) : point[0]);
    base::append(protobuf, ByteView(point).first(33));
    const auto secp256k1 = PublicKey::from_protobuf(protobuf);
    ASSERT_TRUE(secp256k1) << secp256k1.error().message();
    expect_verifies(*secp256k1, to_bytes("message"), sign_with(bitcoin, as_bytes("message")));
    EVP_PKEY_free(bitcoin);
}

TEST(Identity, weak_and_foreign_keys_are_refused) {
    EVP_PKEY* weak = EVP_RSA_gen(1024);
    EXPECT_FALSE(PublicKey::from_protobuf(spki_message(weak, 0)));
    EXPECT_FALSE(PublicKey::from_protobuf(spki_message(weak, 3)));  // RSA said to be ECDSA
    EVP_PKEY_free(weak);
    EVP_PKEY* p384 = EVP_EC_gen("P-384");
    EXPECT_FALSE(PublicKey::from_protobuf(spki_message(p384, 3)));
    EVP_PKEY_free(p384);
    Bytes off_the_curve = {0x08, 0x02, 0x12, 33, 0x02};
    off_the_curve.resize(37, 0xff);
    EXPECT_FALSE(PublicKey::from_protobuf(off_the_curve));
}

TEST(Identity, rsa_keys_by_which_checking_is_dear_are_refused) {
    const auto is_read = [](std::size_t bits, std::size_t exponent_bits) {
        EVP_PKEY* const key = rsa_key(bits, exponent_bits);
        const auto read = PublicKey::from_protobuf(spki_message(key, 0));
        EVP_PKEY_free(key);
        return read.has_value();
    };
    EXPECT_TRUE(is_read(2048, 24));
    EXPECT_TRUE(is_read(rsa_bits_max, rsa_exponent_bits_max));
    EXPECT_FALSE(is_read(rsa_bits_max + 8, 24));
    EXPECT_FALSE(is_read(2048, rsa_exponent_bits_max + 8));
}

TEST(Identity, ed25519_is_that_of_rfc_8032_and_generation_uses_the_injected_randomness) {
    const Bytes seed =
        *base::from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    const Identity identity = Identity::from_seed(seed).value();
    EXPECT_EQ(base::to_hex(identity.sign({})),
              "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e"
              "39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
    EXPECT_TRUE(identity.id().text().starts_with("12D3KooW"));
    const Identity again = Identity::generate([&](std::span<std::uint8_t> out) {
        ASSERT_EQ(out.size(), seed.size());
        std::copy(seed.begin(), seed.end(), out.begin());
    });
    EXPECT_EQ(again.id(), identity.id());
    EXPECT_NE(Identity::generate().id(), Identity::generate().id());
}

void expect_signs(const Signer& signer, const PeerId& other, const Verifier& verifier) {
    const Bytes signature = signer.sign("vote", as_bytes("yes"));
    EXPECT_TRUE(verifier.verify(signer.id(), "vote", as_bytes("yes"), signature));
    EXPECT_FALSE(verifier.verify(signer.id(), "plan", as_bytes("yes"), signature));
    EXPECT_FALSE(verifier.verify(signer.id(), "vot", as_bytes("eyes"), signature));
    EXPECT_FALSE(verifier.verify(signer.id(), "vote", as_bytes("no"), signature));
    EXPECT_FALSE(verifier.verify(other, "vote", as_bytes("yes"), signature));
    EXPECT_FALSE(verifier.verify(PeerId(), "vote", as_bytes("yes"), signature));
    EXPECT_FALSE(verifier.verify(signer.id(), "vote", as_bytes("yes"), {}));
    EXPECT_EQ(peer_id_of(signer.public_key()), signer.id());
}

TEST(Signer, a_signature_counts_only_for_its_signer_domain_and_message) {
    expect_signs(IdentitySigner(Identity::from_seed(Bytes(32, 1)).value()),
                 Identity::from_seed(Bytes(32, 2)).value().id(),
                 IdentityVerifier());
}

TEST(Signer, the_toy_behaves_alike) {
    expect_signs(ToySigner(1), toy_peer_id(2), ToyVerifier());
    EXPECT_TRUE(toy_peer_id(1).text().starts_with("12D3KooW"));
    EXPECT_EQ(PeerId::from_text(toy_peer_id(7).text()).value(), toy_peer_id(7));
}

TEST(Signer, a_crowd_of_signers_is_told_apart) {
    const IdentityVerifier verifier;
    std::optional<PeerId> before;
    for (int i = 0; i < 600; ++i) {
        Bytes seed(32, 3);
        seed[0] = static_cast<std::uint8_t>(i);
        seed[1] = static_cast<std::uint8_t>(i / 256);
        const IdentitySigner signer(Identity::from_seed(seed).value());
        const Bytes signature = signer.sign("vote", as_bytes("yes"));
        EXPECT_TRUE(verifier.verify(signer.id(), "vote", as_bytes("yes"), signature)) << i;
        if (before) {
            EXPECT_FALSE(verifier.verify(*before, "vote", as_bytes("yes"), signature)) << i;
        }
        before = signer.id();
    }
}

TEST(Signer, ids_without_a_key_inside_do_not_verify) {
    const auto ids = vectors("libp2p_vectors.json")["peer_ids"];
    for (const char* name : {"rsa_public", "secp256k1_public", "ecdsa_public"}) {
        const PeerId id = PublicKey::from_protobuf(hex(ids[name]))->peer_id();
        EXPECT_FALSE(IdentityVerifier().verify(id, "vote", as_bytes("yes"), Bytes(64))) << name;
    }
}

}  // namespace
}  // namespace dedloc::security
