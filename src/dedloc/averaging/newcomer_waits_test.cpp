#include "dedloc/averaging/newcomer_waits.h"

#include <gtest/gtest.h>

#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::averaging {
namespace {

constexpr TimePoint waits_begin{1000s};

Digest decision_number(std::uint64_t number) {
    return security::sha256(as_bytes(std::to_string(number)));
}

TEST(NewcomerWaits, a_new_identity_a_step_costs_few_steps_their_timeout) {
    NewcomerWaits waits;
    std::size_t waited = 0;
    constexpr std::uint64_t steps = 1000;  // of a second
    for (std::uint64_t i = 0; i < steps; ++i)
        if (waits.waits_for(security::toy_peer_id(i), decision_number(i), 1, waits_begin + 1s * i))
            ++waited;
    EXPECT_LE(waited, 32u + steps / 15 + 1) << "0.4 s each: 4 % of the run";
}

TEST(NewcomerWaits, one_that_never_comes_is_waited_for_in_four_rounds) {
    NewcomerWaits waits;
    const PeerId peer = security::toy_peer_id(1);
    std::size_t waited = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
        const bool first = waits.waits_for(peer, decision_number(i), 1, waits_begin + 1h * i);
        EXPECT_EQ(waits.waits_for(peer, decision_number(i), 1, waits_begin + 1h * i), first);
        if (first) ++waited;
    }
    EXPECT_EQ(waited, 4u);
}

TEST(NewcomerWaits, forty_that_come_in_time_are_waited_for_in_each_round) {
    NewcomerWaits waits;
    for (std::uint64_t round = 0; round < 100; ++round)
        for (std::uint64_t i = 0; i < 40; ++i) {
            const PeerId peer = security::toy_peer_id(i);
            EXPECT_TRUE(waits.waits_for(peer, decision_number(round), 2, waits_begin + 1s * round));
            waits.came_in_time(peer);
        }
}

TEST(NewcomerWaits, coming_in_time_once_buys_no_more_than_a_first_day) {
    NewcomerWaits waits;
    const PeerId peer = security::toy_peer_id(1);
    std::size_t waited = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
        if (waits.waits_for(peer, decision_number(i), 1, waits_begin + 1h * i)) ++waited;
        if (i == 2) waits.came_in_time(peer);
    }
    EXPECT_EQ(waited, 3u + 4u);
}

// The newcomer loads for ever, over a line that is slower than the steps are made.
TEST(NewcomerWaits, one_without_a_state_slows_nobody_for_longer_than_a_minute) {
    NewcomerWaits waits;
    const PeerId slow = security::toy_peer_id(1);
    EXPECT_TRUE(waits.waits_while_loading(slow, waits_begin));
    EXPECT_TRUE(waits.waits_while_loading(slow, waits_begin + 59s));
    for (int i = 60; i < 1000; ++i)
        EXPECT_FALSE(waits.waits_while_loading(slow, waits_begin + 1s * i));
    std::size_t waited = 0;
    for (std::uint64_t i = 0; i < 100; ++i)
        if (waits.waits_while_loading(security::toy_peer_id(10 + i), waits_begin + 1000s)) ++waited;
    EXPECT_LE(waited, 8u) << "identities cost nothing";
}

TEST(NewcomerWaits, many_leaders_share_the_budget_of_one) {
    NewcomerWaits waits;
    std::size_t waited = 0;
    for (std::uint64_t i = 0; i < 100; ++i)
        if (waits.waits_for(security::toy_peer_id(i), decision_number(i), 20, waits_begin))
            ++waited;
    EXPECT_EQ(waited, 2u);
}

}  // namespace
}  // namespace dedloc::averaging
