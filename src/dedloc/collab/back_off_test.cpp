#include "dedloc/collab/back_off.h"

#include <gtest/gtest.h>

namespace dedloc::collab {
namespace {

using Fate = BackOff::Fate;

PeerId leader(char name) {
    Bytes multihash{0x12, 32};
    multihash.resize(34, static_cast<std::uint8_t>(name));
    return *PeerId::from_bytes(multihash);
}

// Steps until the back-off is over.
std::uint64_t wait_out(BackOff& back_off) {
    std::uint64_t steps = 0;
    for (; back_off.is_on(); ++steps) EXPECT_FALSE(back_off.step_made(Fate::missing, leader('x')));
    return steps;
}

TEST(BackOff, OneLeadersWordIsNotEnough) {
    BackOff back_off;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(back_off.step_made(Fate::left_out, leader('a')));
    EXPECT_FALSE(back_off.is_on());
}

TEST(BackOff, ASecondLeadersIs) {
    BackOff back_off;
    EXPECT_FALSE(back_off.step_made(Fate::left_out, leader('a')));
    EXPECT_TRUE(back_off.step_made(Fate::left_out, leader('b')));
    EXPECT_TRUE(back_off.is_on());
}

TEST(BackOff, TheOnlyLeaderThereIsIsBelievedInTheEnd) {
    BackOff back_off;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(back_off.step_made(Fate::left_out, leader('a')));
    EXPECT_TRUE(back_off.step_made(Fate::left_out, leader('a')));
}

TEST(BackOff, EachRestInARowIsTwiceAsLongUpToABound) {
    BackOff back_off;
    EXPECT_FALSE(back_off.step_made(Fate::left_out, leader('a')));
    for (const std::uint64_t length : {8u, 16u, 32u, 64u, 64u}) {
        ASSERT_TRUE(back_off.step_made(Fate::left_out, leader('b')));
        EXPECT_EQ(wait_out(back_off), length);
    }
}

TEST(BackOff, OneContributionThatIsTakenOnTrustProvesNothing) {
    BackOff back_off;
    (void)back_off.step_made(Fate::left_out, leader('a'));
    (void)back_off.step_made(Fate::left_out, leader('b'));
    (void)wait_out(back_off);
    EXPECT_FALSE(back_off.step_made(Fate::taken, leader('a')));
    EXPECT_TRUE(back_off.step_made(Fate::left_out, leader('a')));
    EXPECT_EQ(wait_out(back_off), 16u);
}

TEST(BackOff, TwoContributionsThatAreTakenMakeEverythingAsAtTheBeginning) {
    BackOff back_off;
    (void)back_off.step_made(Fate::left_out, leader('a'));
    (void)back_off.step_made(Fate::left_out, leader('b'));
    (void)wait_out(back_off);
    EXPECT_FALSE(back_off.step_made(Fate::taken, leader('a')));
    EXPECT_FALSE(back_off.step_made(Fate::taken, leader('b')));
    EXPECT_FALSE(back_off.step_made(Fate::left_out, leader('a')));
    EXPECT_FALSE(back_off.is_on());
}

TEST(BackOff, OneRoundForWhichItIsLateIsNotEnoughSeveralInARowAre) {
    BackOff back_off;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(back_off.step_made(Fate::late, leader('a')));
    EXPECT_FALSE(back_off.step_made(Fate::taken, leader('b')));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(back_off.step_made(Fate::late, leader('a')));
    EXPECT_TRUE(back_off.step_made(Fate::late, leader('b')));
    EXPECT_TRUE(back_off.was_late());
    EXPECT_EQ(wait_out(back_off), 8u);
}

TEST(BackOff, AContributionThatIsMissingSaysNothing) {
    BackOff back_off;
    (void)back_off.step_made(Fate::left_out, leader('a'));
    EXPECT_FALSE(back_off.step_made(Fate::missing, leader('b')));
    EXPECT_FALSE(back_off.is_on());
}

TEST(BackOff, EndsAtOnceWhenTheLineIsAnotherOne) {
    BackOff back_off;
    (void)back_off.step_made(Fate::left_out, leader('a'));
    (void)back_off.step_made(Fate::left_out, leader('b'));
    back_off.end();
    EXPECT_FALSE(back_off.is_on());
}

}  // namespace
}  // namespace dedloc::collab
