#include "dedloc/robust/recheck.h"

#include <gtest/gtest.h>

namespace dedloc::robust {
namespace {

PeerId peer(std::uint8_t number) {
    Bytes bytes = {0x00, 0x04, 8, 8, 8, number};
    return PeerId::from_bytes(bytes).value();
}

std::vector<Row> rows_about(float value) {
    Row row;
    row.contribution.fill(value);
    return {row};
}

const std::vector<Row> truth = rows_about(1);
const std::vector<Row> lie = rows_about(-1000);

std::set<PeerId> eligible_peers(std::uint8_t count) {
    std::set<PeerId> all;
    for (std::uint8_t i = 1; i <= count; ++i) all.insert(peer(i));
    return all;
}

Recheck recheck_about(const std::vector<Row>& rows, std::uint8_t count = 6) {
    return Recheck(rows, peer(1), eligible_peers(count), 2e-3);
}

TEST(Cases, OneValidatorThatAgreesClosesIt) {
    Recheck one = recheck_about(truth);
    EXPECT_EQ(one.result(2), RecheckResult::open);
    EXPECT_TRUE(one.add(peer(1), rows_about(1.0001f)).has_value());
    EXPECT_EQ(one.result(2), RecheckResult::right);
    EXPECT_TRUE(one.guilty().empty());
}

TEST(Cases, OneAccusationBansNobodyButCallsTheOthers) {
    Recheck one = recheck_about(lie);
    (void)one.add(peer(1), truth);
    EXPECT_EQ(one.result(2), RecheckResult::disputed);
}

TEST(Cases, TwoThatAgreeWithEachOtherConvictTheAuthor) {
    Recheck one = recheck_about(lie);
    (void)one.add(peer(1), truth);
    (void)one.add(peer(2), rows_about(1.0001f));
    EXPECT_EQ(one.result(2), RecheckResult::author_guilty);
    EXPECT_EQ(one.witnesses(2), (std::vector<PeerId>{peer(1), peer(2)}));
}

TEST(Cases, AGradientTimesOneAndAHalfIsFound) {
    Recheck one = recheck_about(rows_about(1.5f));
    (void)one.add(peer(1), truth);
    (void)one.add(peer(2), truth);
    EXPECT_EQ(one.result(2), RecheckResult::author_guilty);
}

TEST(Cases, ALoneAccuserIsConvictedByThoseWhoFindTheAuthorRight) {
    Recheck one = recheck_about(truth);
    (void)one.add(peer(1), lie);
    (void)one.add(peer(2), truth);
    EXPECT_EQ(one.result(2), RecheckResult::disputed);
    (void)one.add(peer(3), truth);
    EXPECT_EQ(one.result(2), RecheckResult::accuser_guilty);
    EXPECT_EQ(one.guilty(), (std::vector<PeerId>{peer(1)}));
    EXPECT_EQ(one.witnesses(2), (std::vector<PeerId>{peer(2), peer(3)}));
}

TEST(Cases, WhereNoTwoAgreeNobodyIsConvicted) {
    Recheck one = recheck_about(rows_about(1), 3);
    (void)one.add(peer(1), rows_about(2));
    (void)one.add(peer(2), rows_about(3));
    (void)one.add(peer(3), rows_about(4));
    EXPECT_EQ(one.result(2), RecheckResult::undecided);
    EXPECT_TRUE(one.witnesses(2).empty());
}

TEST(Cases, LiarsBelowAThirdCannotConvictAnHonestAuthor) {
    // Five of sixteen voters swear the same false rows.
    Recheck one(truth, peer(1), eligible_peers(15), 2e-3);
    const std::size_t needed = findings_needed(16);
    for (std::uint8_t liar = 1; liar <= 5; ++liar) (void)one.add(peer(liar), lie);
    EXPECT_EQ(one.result(needed), RecheckResult::disputed);
    for (std::uint8_t honest = 6; honest <= 15; ++honest) (void)one.add(peer(honest), truth);
    EXPECT_EQ(one.result(needed), RecheckResult::accuser_guilty);
    EXPECT_EQ(one.guilty().size(), 5u);
}

TEST(Cases, LiarsThatCoverForEachOtherDoNotHinderTheOthers) {
    // Seven attack; the six others of them find the author right.
    Recheck one(lie, peer(15), eligible_peers(15), 2e-3);
    for (std::uint8_t liar = 1; liar <= 5; ++liar) (void)one.add(peer(liar), lie);
    const std::size_t needed = findings_needed(16);
    for (std::uint8_t honest = 7; honest <= 15; ++honest) (void)one.add(peer(honest), truth);
    EXPECT_EQ(one.result(needed), RecheckResult::author_guilty);
}

TEST(Cases, TakeOneAnswerOfEachThatIsAskedAndNoOther) {
    Recheck one = recheck_about(truth);
    EXPECT_FALSE(one.add(peer(77), truth).has_value());
    EXPECT_TRUE(one.add(peer(2), truth).has_value());
    EXPECT_TRUE(one.add(peer(2), truth).has_value());
    EXPECT_FALSE(one.add(peer(2), lie).has_value());
    EXPECT_FALSE(one.add(peer(3), {}).has_value());
}

TEST(Cases, NeedTwoFindingsAndAThirdOfTheVotersAndOne) {
    EXPECT_EQ(findings_needed(1), 1u);  // or one that keeps back its nonce would stop a new run
    EXPECT_EQ(findings_needed(2), 2u);
    EXPECT_EQ(findings_needed(6), 2u);
    EXPECT_EQ(findings_needed(7), 3u);
    EXPECT_EQ(findings_needed(16), 6u);
}

}  // namespace
}  // namespace dedloc::robust
