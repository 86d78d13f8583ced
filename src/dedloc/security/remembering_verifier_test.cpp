#include "dedloc/security/remembering_verifier.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"

namespace dedloc::security {
namespace {

class CountingVerifier final : public Verifier {
  public:
    bool verify(const PeerId& signer,
                std::string_view domain,
                ByteView message,
                ByteView signature) const override {
        ++checks;
        return real_.verify(signer, domain, message, signature);
    }
    mutable int checks = 0;

  private:
    IdentityVerifier real_;
};

TEST(RememberingVerifier, checks_a_right_signature_once_and_a_wrong_one_always) {
    const Identity identity = Identity::generate();
    const IdentitySigner signer(identity);
    const CountingVerifier counting;
    const RememberingVerifier verifier(counting);
    const Bytes signature = signer.sign("vote", as_bytes("yes"));
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(verifier.verify(signer.id(), "vote", as_bytes("yes"), signature));
    EXPECT_EQ(counting.checks, 1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(verifier.verify(signer.id(), "vote", as_bytes("no"), signature));
        EXPECT_FALSE(verifier.verify(signer.id(), "plan", as_bytes("yes"), signature));
        EXPECT_FALSE(verifier.verify(signer.id(), "vote", as_bytes("yes"), Bytes(64)));
    }
    EXPECT_EQ(counting.checks, 10);
    const IdentitySigner other(Identity::generate());
    EXPECT_FALSE(verifier.verify(other.id(), "vote", as_bytes("yes"), signature));
}

TEST(RememberingVerifier, does_not_confuse_where_one_piece_ends_and_the_next_begins) {
    const IdentitySigner signer(Identity::generate());
    const IdentityVerifier real;
    const RememberingVerifier verifier(real);
    const Bytes signature = signer.sign("ab", as_bytes("c"));
    EXPECT_TRUE(verifier.verify(signer.id(), "ab", as_bytes("c"), signature));
    EXPECT_FALSE(verifier.verify(signer.id(), "a", as_bytes("bc"), signature));
}

TEST(RememberingSigner, makes_signatures_that_hold_and_need_no_check_here) {
    const IdentitySigner real(Identity::generate());
    const CountingVerifier counting;
    RememberingVerifier verifier(counting);
    const RememberingSigner signer(real, verifier);
    EXPECT_EQ(signer.id(), real.id());
    EXPECT_EQ(signer.public_key(), real.public_key());
    const Bytes signature = signer.sign("vote", as_bytes("yes"));
    EXPECT_TRUE(verifier.verify(signer.id(), "vote", as_bytes("yes"), signature));
    EXPECT_EQ(counting.checks, 0);
    EXPECT_FALSE(verifier.verify(signer.id(), "vote", as_bytes("no"), signature));
    EXPECT_TRUE(counting.verify(signer.id(), "vote", as_bytes("yes"), signature));
}

}  // namespace
}  // namespace dedloc::security
