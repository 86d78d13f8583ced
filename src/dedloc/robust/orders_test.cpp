#include "dedloc/robust/orders.h"

#include <gtest/gtest.h>

namespace dedloc::robust {
namespace {

PeerId subject(std::uint16_t number) {
    Bytes bytes = {0x00,
                   0x04,
                   9,
                   9,
                   static_cast<std::uint8_t>(number >> 8),
                   static_cast<std::uint8_t>(number)};
    return PeerId::from_bytes(bytes).value();
}

Order order(OrderKind kind, std::uint16_t number, std::uint64_t until = for_good) {
    Order made;
    made.kind = kind;
    made.subject = subject(number);
    made.from_step = 10;
    made.until_step = until;
    return made;
}

TEST(Orders, ABanBarsForGoodAndAnEliminationForItsSteps) {
    Orders orders;
    EXPECT_TRUE(orders.add(order(OrderKind::ban, 1)));
    EXPECT_TRUE(orders.add(order(OrderKind::eliminate, 2, 20)));
    EXPECT_NE(orders.barring(subject(1), 1'000'000), nullptr);
    EXPECT_NE(orders.barring(subject(2), 19), nullptr);
    EXPECT_EQ(orders.barring(subject(2), 20), nullptr);
    EXPECT_EQ(orders.barring(subject(3), 10), nullptr);
}

TEST(Orders, ProbationBarsNobodyAndEndsByRelease) {
    Orders orders;
    orders.add(order(OrderKind::probation, 1));
    EXPECT_EQ(orders.barring(subject(1), 11), nullptr);
    EXPECT_TRUE(orders.on_probation(subject(1), 11));
    orders.release(subject(1));
    EXPECT_FALSE(orders.on_probation(subject(1), 11));
}

TEST(Orders, TheSameAgainIsNotAdded) {
    Orders orders;
    EXPECT_TRUE(orders.add(order(OrderKind::eliminate, 1, 20)));
    EXPECT_FALSE(orders.add(order(OrderKind::eliminate, 1, 15)));
    EXPECT_TRUE(orders.add(order(OrderKind::eliminate, 1, 30)));
    EXPECT_EQ(orders.list().size(), 1u);
}

TEST(Orders, AreBounded) {
    Orders orders;
    for (std::uint16_t i = 0; i < orders_max; ++i)
        EXPECT_TRUE(orders.add(order(OrderKind::ban, i)));
    EXPECT_FALSE(orders.add(order(OrderKind::ban, 9999)));
    EXPECT_TRUE(check_orders(orders.list()).has_value());
}

TEST(Orders, WhatHasRunOutIsForgotten) {
    Orders orders;
    orders.add(order(OrderKind::eliminate, 1, 20));
    orders.add(order(OrderKind::ban, 2));
    orders.forget_before(20);
    EXPECT_EQ(orders.list().size(), 1u);
}

TEST(Orders, ALeaderThatForgetsABanIsRefused) {
    Orders before;
    before.add(order(OrderKind::ban, 1));
    before.add(order(OrderKind::eliminate, 2, 20));
    const auto dropped =
        changes_between(before.list(), std::vector<Order>{order(OrderKind::ban, 1)}, 15);
    EXPECT_FALSE(dropped.has_value());
    EXPECT_TRUE(changes_between(before.list(), std::vector<Order>{order(OrderKind::ban, 1)}, 20)
                    .has_value());
}

TEST(Orders, ALeaderThatShortensAnEliminationIsRefused) {
    Orders before;
    before.add(order(OrderKind::eliminate, 2, 20));
    const std::vector<Order> after = {order(OrderKind::eliminate, 2, 18)};
    EXPECT_FALSE(changes_between(before.list(), after, 15).has_value());
}

TEST(Orders, WhatIsNewIsNamedSoThatItsEvidenceIsLookedAt) {
    Orders before;
    before.add(order(OrderKind::ban, 1));
    Orders after = before;
    after.add(order(OrderKind::ban, 3));
    const auto changes = changes_between(before.list(), after.list(), 10);
    ASSERT_TRUE(changes.has_value());
    ASSERT_EQ(changes->added.size(), 1u);
    EXPECT_EQ(changes->added.front().subject, subject(3));
    EXPECT_TRUE(changes->ended.empty());
}

TEST(Orders, ANewOneBeginsAtTheStepThatSaysIt) {
    Orders after;
    after.add(order(OrderKind::ban, 3));
    EXPECT_FALSE(changes_between({}, after.list(), 11).has_value());
}

TEST(Orders, WhatHasRunOutMayNotBeKept) {
    Orders before;
    before.add(order(OrderKind::eliminate, 3, 12));
    EXPECT_TRUE(changes_between(before.list(), before.list(), 11).has_value());
    EXPECT_FALSE(changes_between(before.list(), before.list(), 12).has_value());
}

TEST(Orders, AnEndOfProbationIsNamedSoThatItsReasonIsLookedAt) {
    Orders before;
    before.add(order(OrderKind::probation, 3));
    const auto changes = changes_between(before.list(), {}, 15);
    ASSERT_TRUE(changes.has_value());
    ASSERT_EQ(changes->ended.size(), 1u);
    EXPECT_EQ(changes->ended.front().subject, subject(3));
}

TEST(Orders, AVouchEndsProbationAndProbationEndsAVouch) {
    Orders orders;
    orders.add(order(OrderKind::probation, 1));
    EXPECT_TRUE(orders.add(order(OrderKind::vouch, 1, 50)));
    EXPECT_FALSE(orders.on_probation(subject(1), 11));
    EXPECT_TRUE(orders.add(order(OrderKind::probation, 1)));
    EXPECT_EQ(orders.vouching(subject(1), 11), nullptr);
}

TEST(Orders, APardonIsRememberedWhereAPlainVouchIsForgotten) {
    Orders orders;
    orders.add(order(OrderKind::vouch, 1, 50));
    Order readmission = order(OrderKind::vouch, 2, 50);
    readmission.offence = Offence::mistaken;
    orders.add(readmission);
    EXPECT_EQ(orders.readmission_of(subject(1), 11), nullptr);
    orders.forget_vouch(subject(1));
    orders.forget_vouch(subject(2));
    EXPECT_EQ(orders.vouching(subject(1), 11), nullptr);
    ASSERT_NE(orders.readmission_of(subject(2), 11), nullptr);
    EXPECT_EQ(orders.readmission_of(subject(2), 50), nullptr);
    orders.add(order(OrderKind::ban, 2));
    EXPECT_EQ(orders.readmission_of(subject(2), 11), nullptr);
}

TEST(Orders, VouchesLeaveRoomForBans) {
    Orders orders;
    for (std::uint16_t i = 0; i < orders_max; ++i) (void)orders.add(order(OrderKind::vouch, i, 50));
    EXPECT_EQ(orders.vouches(), vouches_max);
    EXPECT_TRUE(orders.add(order(OrderKind::ban, 9999)));
}

TEST(Orders, APersonIsRevokedOrAdmittedByTheNewerOrder) {
    Order revoked = order(OrderKind::revoke, 1);
    revoked.subject = PeerId();
    revoked.person = "ann";
    Orders before;
    before.add(revoked);
    Order admitted = revoked;
    admitted.kind = OrderKind::admit;
    Orders after = before;
    EXPECT_TRUE(after.add(admitted));
    EXPECT_EQ(after.revoking("ann"), nullptr);
    EXPECT_NE(after.admitting("ann"), nullptr);
    EXPECT_TRUE(changes_between(before.list(), after.list(), 10).has_value());
    EXPECT_FALSE(changes_between(before.list(), {}, 10).has_value());
}

TEST(Orders, ListsThatNoHonestLeaderWritesAreRefused) {
    Order of_nobody = order(OrderKind::ban, 1);
    of_nobody.subject = PeerId();
    EXPECT_FALSE(check_orders(std::vector{of_nobody}).has_value());
    Order backwards = order(OrderKind::ban, 1, 5);
    EXPECT_FALSE(check_orders(std::vector{backwards}).has_value());
    Order strange = order(static_cast<OrderKind>(17), 1);
    EXPECT_FALSE(check_orders(std::vector{strange}).has_value());
    const std::vector twice = {order(OrderKind::ban, 1), order(OrderKind::ban, 1)};
    EXPECT_FALSE(check_orders(twice).has_value());
    Order person = order(OrderKind::revoke, 1);
    EXPECT_FALSE(check_orders(std::vector{person}).has_value());
    person.subject = PeerId();
    person.person = "ann@example.org";
    EXPECT_TRUE(check_orders(std::vector{person}).has_value());
}

TEST(Orders, SpeakToPeople) {
    EXPECT_EQ(in_words(order(OrderKind::ban, 1)),
              "banned since step 10: it computes something else than others do");
    EXPECT_EQ(in_words(order(OrderKind::eliminate, 1, 30)),
              "eliminated since step 10 until step 30: it computes something else than others do");
}

}  // namespace
}  // namespace dedloc::robust
