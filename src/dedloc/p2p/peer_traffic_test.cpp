#include "dedloc/p2p/peer_traffic.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::p2p {
namespace {

using security::toy_peer_id;

TEST(PeerTraffic, connections_to_one_peer_share_a_counter_and_all_are_summed) {
    PeerTraffic traffic;
    traffic.counter_of(toy_peer_id(1))->sent(10);
    traffic.counter_of(toy_peer_id(1))->sent(5);
    traffic.counter_of(toy_peer_id(2))->received(7);
    EXPECT_EQ(traffic.with(toy_peer_id(1)).sent_bytes, 15u);
    EXPECT_EQ(traffic.with(toy_peer_id(2)).received_bytes, 7u);
    EXPECT_EQ(traffic.with(toy_peer_id(3)).received_bytes, 0u);
    EXPECT_EQ(traffic.with_all().sent_bytes, 15u);
    EXPECT_EQ(traffic.with_all().received_bytes, 7u);
}

TEST(PeerTraffic, peers_without_a_connection_are_forgotten_where_they_are_too_many) {
    PeerTraffic traffic(/*peers_max=*/3);
    const auto open = traffic.counter_of(toy_peer_id(1));
    for (std::uint64_t number = 2; number < 20; ++number)
        traffic.counter_of(toy_peer_id(number))->sent(1);
    open->sent(3);
    EXPECT_EQ(traffic.with(toy_peer_id(1)).sent_bytes, 3u);
    EXPECT_EQ(traffic.with(toy_peer_id(2)).sent_bytes, 0u);
    EXPECT_EQ(traffic.with(toy_peer_id(19)).sent_bytes, 1u);
    EXPECT_EQ(traffic.with_all().sent_bytes, 21u);  // of those that are forgotten, too
}

}  // namespace
}  // namespace dedloc::p2p
