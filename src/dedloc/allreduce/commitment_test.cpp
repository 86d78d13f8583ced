#include "dedloc/allreduce/commitment.h"

#include <gtest/gtest.h>

#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::allreduce {
namespace {

std::vector<Digest> some_parts(std::size_t count) {
    std::vector<Digest> parts;
    for (std::size_t i = 0; i < count; ++i)
        parts.push_back(security::sha256(Bytes{static_cast<std::uint8_t>(i), 9}));
    return parts;
}

TEST(Commitment, EveryPartIsUnderTheRootAtItsOwnPlaceOnly) {
    for (std::size_t count = 1; count <= 17; ++count) {
        const std::vector<Digest> parts = some_parts(count);
        const MerkleTree tree(parts);
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<Digest> path = tree.path(i);
            EXPECT_TRUE(is_under(tree.root(), i, count, parts[i], path)) << count << " " << i;
            for (std::size_t other = 0; other < count; ++other) {
                if (other != i) {
                    EXPECT_FALSE(is_under(tree.root(), other, count, parts[i], path));
                    EXPECT_FALSE(is_under(tree.root(), i, count, parts[other], path));
                }
            }
        }
    }
}

TEST(Commitment, PathsThatAreTooLongOrTooShortAreRefused) {
    const std::vector<Digest> parts = some_parts(5);
    const MerkleTree tree(parts);
    std::vector<Digest> path = tree.path(2);
    path.push_back(Digest{});
    EXPECT_FALSE(is_under(tree.root(), 2, 5, parts[2], path));
    path.resize(path.size() - 2);
    EXPECT_FALSE(is_under(tree.root(), 2, 5, parts[2], path));
    EXPECT_FALSE(is_under(tree.root(), 5, 5, parts[2], tree.path(2)));
}

TEST(Commitment, IsSignedForOnePlanByOneMember) {
    const security::ToySigner signer(3);
    const security::ToySigner another(4);
    const security::ToyVerifier verifier;
    const Digest plan = security::sha256(Bytes{1});
    const Digest root = security::sha256(Bytes{2});
    const Commitment commitment = sign_commitment(signer, plan, root, Digest{});
    EXPECT_TRUE(is_signed(verifier, signer.id(), plan, commitment));
    EXPECT_FALSE(is_signed(verifier, another.id(), plan, commitment));
    EXPECT_FALSE(is_signed(verifier, signer.id(), root, commitment));
    Commitment changed = commitment;
    changed.root = plan;
    EXPECT_FALSE(is_signed(verifier, signer.id(), plan, changed));
}

}  // namespace
}  // namespace dedloc::allreduce
