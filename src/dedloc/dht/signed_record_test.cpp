#include "dedloc/dht/signed_record.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {
namespace {

security::IdentitySigner signer(std::uint8_t seed) {
    return security::IdentitySigner(*security::Identity::from_seed(Bytes(32, seed)));
}

TEST(SignedRecord, comes_back_if_nothing_was_touched) {
    const auto alice = signer(1);
    const auto bob = signer(2);
    const security::IdentityVerifier verifier;
    const DhtId key = DhtId::of_text("status");
    const Bytes payload = to_bytes("payload");
    const Bytes subkey = subkey_of(alice.id());
    const Bytes value = sign_record(alice, key, payload, 1234.5);

    const auto good = check_record(verifier, key, subkey, value, 1234.5);
    ASSERT_TRUE(good) << to_string(good.error());
    EXPECT_EQ(good->payload, payload);
    EXPECT_EQ(good->signer, alice.id());

    const auto refused = [&](const DhtId& k, ByteView s, ByteView v, double expiration) {
        const auto checked = check_record(verifier, k, s, v, expiration);
        return !checked && checked.error().kind() == ErrorKind::denied;
    };
    EXPECT_TRUE(refused(DhtId::of_text("other"), subkey, value, 1234.5));
    EXPECT_TRUE(refused(key, subkey_of(bob.id()), value, 1234.5)) << "in another's name";
    EXPECT_TRUE(refused(key, subkey, value, 1235.5)) << "prolonged";
    EXPECT_TRUE(refused(key, subkey, sign_record(bob, key, payload, 1234.5), 1234.5)) << "forged";
    EXPECT_TRUE(refused(key, subkey, payload, 1234.5)) << "unsigned";
    EXPECT_TRUE(refused(key, subkey, {}, 1234.5));
    for (std::size_t i = 0; i < value.size(); i += 7) {
        Bytes damaged = value;
        damaged[i] ^= 1;
        EXPECT_FALSE(check_record(verifier, key, subkey, damaged, 1234.5)) << i;
    }
}

TEST(SignedRecord, foreign_records_pass_under_other_subkeys) {
    const security::IdentityVerifier verifier;
    const DhtId key = DhtId::of_text("run_progress");
    for (const Bytes& subkey : {wire::encode_msgpack("name"),
                                wire::encode_msgpack(7),
                                wire::encode_msgpack(to_bytes("[owner:ssh-rsa AAAA]")),
                                Bytes{}}) {
        const auto checked = check_record(verifier, key, subkey, to_bytes("value"), 1);
        ASSERT_TRUE(checked);
        EXPECT_FALSE(checked->signer);
        EXPECT_EQ(checked->payload, to_bytes("value"));
    }
}

TEST(SignedRecord, a_subkey_names_a_peer_in_one_way_only) {
    const auto alice = signer(1);
    EXPECT_EQ(**owner_of(subkey_of(alice.id())), alice.id());
    EXPECT_FALSE(owner_of(wire::encode_msgpack("/p2p/nonsense")));
    Bytes longer{0xda, 0, 57};  // str 16 where str 8 is enough
    base::append(longer, as_bytes("/p2p/" + alice.id().text()));
    EXPECT_FALSE(owner_of(longer));
}

}  // namespace
}  // namespace dedloc::dht
