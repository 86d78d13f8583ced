#include "dedloc/robust/spread.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"

namespace dedloc::robust {
namespace {

// A member whose contribution has these projections with one owner and with another one.
std::vector<Row> member_at(Random& random, double spread, double offset = 0) {
    std::vector<Row> rows(2);
    for (Row& row : rows)
        for (float& each : row.contribution)
            each = static_cast<float>(offset + spread * random.normal());
    return rows;
}

std::vector<std::vector<Row>> honest(std::size_t count, double spread) {
    Random random(7);
    std::vector<std::vector<Row>> members;
    for (std::size_t i = 0; i < count; ++i) members.push_back(member_at(random, spread));
    return members;
}

TEST(Spread, IsTheDistanceOfAContributionFromTheHonestMean) {
    // Each of two owners' parts has the length 3.
    EXPECT_NEAR(typical_distance(honest(64, 3)), 3 * std::sqrt(2.0), 0.6);
}

TEST(Spread, OfOneMemberIsNone) { EXPECT_EQ(typical_distance(honest(1, 3)), 0); }

TEST(Spread, IsHardlyMovedByAMinorityHoweverFarItGoes) {
    std::vector<std::vector<Row>> members = honest(9, 1);
    const double before = typical_distance(members);
    Random random(8);
    for (int i = 0; i < 7; ++i) members.push_back(member_at(random, 1, 1e6));
    EXPECT_LT(typical_distance(members), 2 * before);
    for (int i = 9; i < 16; ++i) members[static_cast<std::size_t>(i)] = members[0];
    EXPECT_LT(typical_distance(members), 2 * before);
}

TEST(Spread, OfTwoColludersAmongFiveIsThatOfTheOthers) {
    std::vector<std::vector<Row>> members = honest(3, 1);
    Random random(9);
    const std::vector<Row> poison = member_at(random, 1e3);
    members.push_back(poison);
    members.push_back(poison);
    EXPECT_LT(typical_distance(members), 3);
    EXPECT_GT(typical_distance(members), 0.3);
}

}  // namespace
}  // namespace dedloc::robust
