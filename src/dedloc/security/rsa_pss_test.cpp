#include "dedloc/security/rsa_pss.h"

#include <gtest/gtest.h>

namespace dedloc::security {
namespace {

TEST(RsaPss, a_signature_holds_for_its_message_and_key_alone) {
    const RsaPrivateKey alice = RsaPrivateKey::generate();
    const RsaPrivateKey bob = RsaPrivateKey::generate();
    const Bytes message = to_bytes("a record");
    const std::string signature = alice.sign(message);
    const auto key = RsaPublicKey::from_openssh(alice.public_openssh());
    ASSERT_TRUE(key);
    EXPECT_TRUE(key->verify(message, signature));
    EXPECT_FALSE(key->verify(to_bytes("another record"), signature));
    EXPECT_FALSE(key->verify(message, bob.sign(message)));
    EXPECT_FALSE(key->verify(message, ""));
    EXPECT_FALSE(key->verify(message, "no base64 at all!"));
    std::string changed = signature;
    changed[5] = changed[5] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(key->verify(message, changed));
    EXPECT_NE(signature, alice.sign(message)) << "salted";
}

TEST(RsaPss, what_is_no_key_is_refused) {
    const std::string good = RsaPrivateKey::generate().public_openssh();
    EXPECT_TRUE(RsaPublicKey::from_openssh(good));
    EXPECT_TRUE(RsaPublicKey::from_openssh(good + " somebody@somewhere"));
    for (const std::string& text : {std::string(),
                                    std::string("ssh-rsa "),
                                    std::string("ssh-rsa AAAA"),
                                    std::string("ssh-ed25519 AAAA"),
                                    good.substr(0, good.size() - 8),
                                    good + "AAAA",
                                    std::string("ssh-rsa ") + std::string(4000, 'A')})
        EXPECT_FALSE(RsaPublicKey::from_openssh(text)) << text;
}

}  // namespace
}  // namespace dedloc::security
