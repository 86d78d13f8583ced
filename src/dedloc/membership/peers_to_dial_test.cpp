#include "dedloc/membership/peers_to_dial.h"

#include <gtest/gtest.h>

namespace dedloc::membership {
namespace {

using Addresses = std::vector<std::string>;

const Addresses at_home{"/ip4/192.168.1.20/tcp/4001", "/ip4/203.0.113.7/tcp/4001"};

TEST(AddressesToDial, a_member_elsewhere_names_no_machine_of_our_network) {
    const Addresses told{"/ip4/192.168.1.1/tcp/80",
                         "/ip4/127.0.0.1/tcp/22",
                         "/ip4/10.0.0.1/tcp/443",
                         "/ip6/fe80::1/tcp/80",
                         "/ip4/198.51.100.4/tcp/4001"};
    EXPECT_EQ(addresses_to_dial(told, at_home), Addresses{"/ip4/198.51.100.4/tcp/4001"});
    EXPECT_TRUE(addresses_to_dial({"/ip4/192.168.1.1/tcp/80"}, at_home).empty());
}

TEST(AddressesToDial, behind_the_same_router_the_way_is_the_short_one) {
    const Addresses told{"/ip4/192.168.1.30/tcp/4001", "/ip4/203.0.113.7/tcp/4002"};
    EXPECT_EQ(addresses_to_dial(told, at_home), told);
}

TEST(AddressesToDial, one_that_the_world_cannot_dial_reaches_its_neighbour_that_it_can) {
    const Addresses neighbour{"/ip4/192.168.1.30/tcp/4001", "/ip4/203.0.113.7/tcp/4002"};
    EXPECT_EQ(addresses_to_dial(neighbour, {"/ip4/192.168.1.20/tcp/4001"}), neighbour);
}

TEST(AddressesToDial, a_network_without_the_internet_is_one) {
    const Addresses own{"/ip4/192.168.1.20/tcp/4001", "/ip4/100.70.1.2/tcp/4001"};
    EXPECT_EQ(addresses_to_dial({"/ip4/192.168.1.30/tcp/4001"}, own).size(), 1u);
    EXPECT_EQ(addresses_to_dial({"/ip4/100.99.3.4/tcp/4001"}, own).size(), 1u);
    EXPECT_TRUE(addresses_to_dial({"/ip4/192.168.2.30/tcp/4001"}, own).empty());
    EXPECT_TRUE(addresses_to_dial({"/ip4/127.0.0.1/tcp/4001"}, own).empty());
}

TEST(AddressesToDial, a_peer_is_dialled_at_few_addresses) {
    Addresses told;
    for (int i = 0; i < 16; ++i) told.push_back("/ip4/198.51.100." + std::to_string(i) + "/tcp/1");
    EXPECT_EQ(addresses_to_dial(told, at_home).size(), 4u);
}

}  // namespace
}  // namespace dedloc::membership
