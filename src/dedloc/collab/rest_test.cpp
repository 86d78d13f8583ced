#include "dedloc/collab/rest.h"

#include <gtest/gtest.h>

namespace dedloc::collab {
namespace {

using Fate = Rest::Fate;

PeerId leader(char name) {
    Bytes multihash{0x12, 32};
    multihash.resize(34, static_cast<std::uint8_t>(name));
    return *PeerId::from_bytes(multihash);
}

// Steps until the rest is over.
std::uint64_t wait_out(Rest& rest) {
    std::uint64_t steps = 0;
    for (; rest.resting(); ++steps) EXPECT_FALSE(rest.step_made(Fate::missing, leader('x')));
    return steps;
}

TEST(Rest, OneLeadersWordIsNotEnough) {
    Rest rest;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(rest.step_made(Fate::left_out, leader('a')));
    EXPECT_FALSE(rest.resting());
}

TEST(Rest, ASecondLeadersIs) {
    Rest rest;
    EXPECT_FALSE(rest.step_made(Fate::left_out, leader('a')));
    EXPECT_TRUE(rest.step_made(Fate::left_out, leader('b')));
    EXPECT_TRUE(rest.resting());
}

TEST(Rest, TheOnlyLeaderThereIsIsBelievedInTheEnd) {
    Rest rest;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(rest.step_made(Fate::left_out, leader('a')));
    EXPECT_TRUE(rest.step_made(Fate::left_out, leader('a')));
}

TEST(Rest, EachRestInARowIsTwiceAsLongUpToABound) {
    Rest rest;
    EXPECT_FALSE(rest.step_made(Fate::left_out, leader('a')));
    for (const std::uint64_t length : {8u, 16u, 32u, 64u, 64u}) {
        ASSERT_TRUE(rest.step_made(Fate::left_out, leader('b')));
        EXPECT_EQ(wait_out(rest), length);
    }
}

TEST(Rest, OneContributionThatIsTakenOnTrustProvesNothing) {
    Rest rest;
    (void)rest.step_made(Fate::left_out, leader('a'));
    (void)rest.step_made(Fate::left_out, leader('b'));
    (void)wait_out(rest);
    EXPECT_FALSE(rest.step_made(Fate::taken, leader('a')));
    EXPECT_TRUE(rest.step_made(Fate::left_out, leader('a')));
    EXPECT_EQ(wait_out(rest), 16u);
}

TEST(Rest, TwoContributionsThatAreTakenMakeEverythingAsAtTheBeginning) {
    Rest rest;
    (void)rest.step_made(Fate::left_out, leader('a'));
    (void)rest.step_made(Fate::left_out, leader('b'));
    (void)wait_out(rest);
    EXPECT_FALSE(rest.step_made(Fate::taken, leader('a')));
    EXPECT_FALSE(rest.step_made(Fate::taken, leader('b')));
    EXPECT_FALSE(rest.step_made(Fate::left_out, leader('a')));
    EXPECT_FALSE(rest.resting());
}

TEST(Rest, OneRoundForWhichItIsLateIsNotEnoughSeveralInARowAre) {
    Rest rest;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(rest.step_made(Fate::late, leader('a')));
    EXPECT_FALSE(rest.step_made(Fate::taken, leader('b')));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(rest.step_made(Fate::late, leader('a')));
    EXPECT_TRUE(rest.step_made(Fate::late, leader('b')));
    EXPECT_TRUE(rest.was_late());
    EXPECT_EQ(wait_out(rest), 8u);
}

TEST(Rest, AContributionThatIsMissingSaysNothing) {
    Rest rest;
    (void)rest.step_made(Fate::left_out, leader('a'));
    EXPECT_FALSE(rest.step_made(Fate::missing, leader('b')));
    EXPECT_FALSE(rest.resting());
}

TEST(Rest, EndsAtOnceWhenTheLineIsAnotherOne) {
    Rest rest;
    (void)rest.step_made(Fate::left_out, leader('a'));
    (void)rest.step_made(Fate::left_out, leader('b'));
    rest.end();
    EXPECT_FALSE(rest.resting());
}

}  // namespace
}  // namespace dedloc::collab
