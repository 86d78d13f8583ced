#include "dedloc/membership/peer_table.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"

namespace dedloc::membership {
namespace {

PeerId peer_number(std::uint64_t number) { return security::toy_peer_id(1000 + number); }

class PeerTableTest : public testing::Test {
  protected:
    static constexpr std::size_t peers_most = 3;

    bool hear_of(std::uint64_t number) {
        if (!table.make_room_for(peer_number(number), heard_of_for)) return false;
        table.entry_of(peer_number(number));
        return true;
    }

    sim::World world{6};
    sim::SimNode& node = world.add_node();
    PeerTable table{node.clock(), node.host(), 3s, peers_most};
};

TEST_F(PeerTableTest, a_member_takes_the_place_of_one_that_is_only_heard_of) {
    for (std::uint64_t i = 0; i < peers_most; ++i) EXPECT_TRUE(hear_of(i));
    EXPECT_FALSE(hear_of(7));
    EXPECT_TRUE(table.admit(peer_number(7)));
    EXPECT_TRUE(table.is_member(peer_number(7)));
    EXPECT_EQ(table.all().size(), peers_most);
}

TEST_F(PeerTableTest, members_in_reach_give_no_place_away) {
    for (std::uint64_t i = 0; i < peers_most; ++i) EXPECT_TRUE(table.admit(peer_number(i)));
    EXPECT_FALSE(table.admit(peer_number(7)));
    table.dismiss(*table.find(peer_number(1)));
    EXPECT_TRUE(table.admit(peer_number(7)));
    EXPECT_EQ(table.find(peer_number(1)), nullptr);
}

TEST_F(PeerTableTest,
       one_that_brings_nothing_gives_its_place_to_a_newcomer_and_who_contributes_not) {
    for (std::uint64_t i = 0; i < peers_most; ++i) EXPECT_TRUE(table.admit(peer_number(i)));
    table.contributed(peer_number(0));
    world.run_for(idle_place_for + 1s);
    EXPECT_TRUE(table.admit(peer_number(7)));
    EXPECT_NE(table.find(peer_number(0)), nullptr);
    EXPECT_EQ(table.all().size(), peers_most);
    EXPECT_TRUE(table.admit(peer_number(8)));
    EXPECT_FALSE(table.admit(peer_number(9))) << "all others have just come";
}

TEST_F(PeerTableTest, newcomers_are_admitted_at_a_bounded_rate) {
    PeerTable large{node.clock(), node.host(), 3s, 100'000};
    std::uint64_t admitted = 0;
    for (std::uint64_t i = 0; i < 10'000; ++i)
        if (large.may_admit(peer_number(i))) admitted += large.admit(peer_number(i)) ? 1 : 0;
    EXPECT_EQ(admitted, static_cast<std::uint64_t>(newcomers_burst));
    EXPECT_TRUE(large.may_admit(peer_number(3))) << "it is known";
    world.run_for(1s);
    EXPECT_TRUE(large.may_admit(peer_number(20'000)));
}

TEST_F(PeerTableTest, a_member_that_brought_nothing_is_forgotten_long_before_one_that_did) {
    table.admit(peer_number(0));
    table.admit(peer_number(1));
    table.contributed(peer_number(1));
    for (const std::uint64_t i : {0u, 1u}) table.dismiss(*table.find(peer_number(i)));
    world.run_for(idle_member_for + 1s);
    table.drop_stale();
    EXPECT_EQ(table.find(peer_number(0)), nullptr);
    EXPECT_NE(table.find(peer_number(1)), nullptr);
}

TEST_F(PeerTableTest, a_lost_member_is_remembered_longer_than_one_that_never_proved_itself) {
    hear_of(0);
    table.admit(peer_number(1));
    table.dismiss(*table.find(peer_number(1)));
    world.run_for(heard_of_for + 1s);
    table.drop_stale();
    EXPECT_EQ(table.find(peer_number(0)), nullptr);
    EXPECT_NE(table.find(peer_number(1)), nullptr);
    world.run_for(member_for);
    table.drop_stale();
    EXPECT_TRUE(table.all().empty());
}

TEST_F(PeerTableTest, a_member_that_says_nothing_is_not_live) {
    table.admit(peer_number(0));
    EXPECT_EQ(table.live().size(), 1u);
    world.run_for(3s);
    EXPECT_TRUE(table.live().empty());
    EXPECT_TRUE(table.is_member(peer_number(0)));
}

TEST_F(PeerTableTest, relays_are_told_to_newcomers_first) {
    std::vector<KnownPeer> known(3);
    for (std::size_t i = 0; i < known.size(); ++i) {
        known[i].status.peer = peer_number(i);
        known[i].status.addresses = {fmt::format("/ip4/203.0.113.{}/tcp/4001", i)};
    }
    known[1].status.role = Role::observer;
    known[2].status.role = Role::relay;
    const std::vector<const KnownPeer*> others{&known[0], &known[1], &known[2]};
    const auto told = addresses_for_newcomers(node.host(), others, 3);
    ASSERT_GE(told.size(), 2u);
    EXPECT_EQ(told[told.size() - 2], "/ip4/203.0.113.2/tcp/4001/p2p/" + peer_number(2).text());
    EXPECT_EQ(told.back(), "/ip4/203.0.113.0/tcp/4001/p2p/" + peer_number(0).text());
}

}  // namespace
}  // namespace dedloc::membership
