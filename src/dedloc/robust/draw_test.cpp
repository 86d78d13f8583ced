#include "dedloc/robust/draw.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"

namespace dedloc::robust {
namespace {

// Good enough to tell inputs apart.
Digest toy_hash(ByteView bytes) {
    std::uint64_t key = 7;
    for (const std::uint8_t byte : bytes) key = base::mix64(key ^ byte);
    Bytes digest;
    for (int i = 0; i < 4; ++i) base::put_u64_be(digest, key = base::mix64(key));
    return Digest::from(digest).value();
}

Digest nonce_of(std::uint8_t member) { return toy_hash(Bytes{member}); }

const Digest round_a = toy_hash(Bytes{1, 2});

Draw committed_by(std::initializer_list<std::uint32_t> members) {
    Draw draw(toy_hash, round_a);
    for (const std::uint32_t m : members) {
        const auto nonce = nonce_of(static_cast<std::uint8_t>(m));
        EXPECT_TRUE(draw.commit(m, nonce_hash(toy_hash, round_a, m, nonce)).has_value());
    }
    return draw;
}

TEST(Draw, IsCompleteWhenAllHaveRevealedAndTheOrderDoesNotMatter) {
    Draw one = committed_by({0, 1, 5});
    Draw other = committed_by({0, 1, 5});
    for (const std::uint8_t m : std::vector<std::uint8_t>{0, 1, 5})
        EXPECT_TRUE(one.reveal(m, nonce_of(m)).has_value());
    for (const std::uint8_t m : std::vector<std::uint8_t>{5, 0, 1})
        EXPECT_TRUE(other.reveal(m, nonce_of(m)).has_value());
    EXPECT_TRUE(one.complete());
    EXPECT_EQ(one.seed(), other.seed());
}

TEST(Draw, EveryRevealedNonceChangesTheSeed) {
    Draw all = committed_by({0, 1});
    Draw less = committed_by({0, 1});
    (void)all.reveal(0, nonce_of(0));
    (void)less.reveal(0, nonce_of(0));
    (void)all.reveal(1, nonce_of(1));
    EXPECT_NE(all.seed(), less.seed());
}

TEST(Draw, NamesWhoKeepsItsNonceBack) {
    Draw draw = committed_by({0, 1, 5});
    (void)draw.reveal(1, nonce_of(1));
    EXPECT_FALSE(draw.complete());
    EXPECT_EQ(draw.withheld(), (std::vector<std::uint32_t>{0, 5}));
}

TEST(Draw, RefusesANonceThatItsMemberHasNotCommittedTo) {
    Draw draw = committed_by({0, 1});
    EXPECT_FALSE(draw.reveal(0, nonce_of(9)).has_value());
    EXPECT_FALSE(draw.reveal(0, nonce_of(1)).has_value()) << "another member's nonce";
    EXPECT_FALSE(draw.reveal(7, nonce_of(7)).has_value());
    EXPECT_EQ(draw.revealed_count(), 0u);
}

TEST(Draw, RefusesASecondCommitmentToAnotherNonce) {
    Draw draw = committed_by({0});
    EXPECT_TRUE(draw.commit(0, nonce_hash(toy_hash, round_a, 0, nonce_of(0))).has_value());
    EXPECT_FALSE(draw.commit(0, nonce_hash(toy_hash, round_a, 0, nonce_of(3))).has_value());
}

TEST(Draw, NobodyCommitsOnceANonceIsKnown) {
    Draw draw = committed_by({0});
    (void)draw.reveal(0, nonce_of(0));
    EXPECT_FALSE(draw.commit(1, nonce_hash(toy_hash, round_a, 1, nonce_of(1))).has_value());
}

TEST(Draw, ACommitmentOfAnotherRoundDoesNotFit) {
    Draw draw(toy_hash, round_a);
    (void)draw.commit(0, nonce_hash(toy_hash, toy_hash(Bytes{9}), 0, nonce_of(0)));
    EXPECT_FALSE(draw.reveal(0, nonce_of(0)).has_value());
}

}  // namespace
}  // namespace dedloc::robust
