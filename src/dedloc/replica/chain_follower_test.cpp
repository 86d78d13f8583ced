#include "dedloc/replica/chain_follower.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"

namespace dedloc::replica {
namespace {

PeerId provider_id(std::uint8_t number) {
    const Bytes seed(security::ed25519_seed_bytes, number);
    return security::Identity::from_seed(seed).value().id();
}

membership::KnownPeer provider(std::uint8_t number,
                               double upload_bytes_per_s,
                               membership::Role role = membership::Role::trainer) {
    membership::KnownPeer known;
    known.status.peer = provider_id(number);
    known.status.role = role;
    known.status.phase = membership::Phase::computing;
    known.status.upload_bytes_per_s = upload_bytes_per_s;
    return known;
}

TEST(Providers, with_fast_uplinks_come_first_and_who_trains_nothing_is_none) {
    const membership::KnownPeer slow = provider(1, 1e6);
    const membership::KnownPeer fast = provider(2, 9e6);
    const membership::KnownPeer aggregator = provider(3, 99e6, membership::Role::aggregator);
    const membership::KnownPeer unknown = provider(4, 0);
    const std::vector<const membership::KnownPeer*> live{&slow, &fast, &aggregator, &unknown};
    EXPECT_EQ(fastest_providers(live, provider_id(1)),
              (std::vector<PeerId>{provider_id(2), provider_id(1), provider_id(4)}));
    EXPECT_EQ(fastest_providers(live, provider_id(4)),
              (std::vector<PeerId>{provider_id(2), provider_id(1), provider_id(4)}));
}

TEST(Providers, who_told_of_the_state_goes_first_where_nothing_is_known_of_uplinks) {
    const membership::KnownPeer one = provider(1, 0);
    const membership::KnownPeer two = provider(2, 0);
    const std::vector<const membership::KnownPeer*> live{&one, &two};
    EXPECT_EQ(fastest_providers(live, provider_id(2)),
              (std::vector<PeerId>{provider_id(2), provider_id(1)}));
    EXPECT_EQ(fastest_providers(live, provider_id(7)),
              (std::vector<PeerId>{provider_id(7), provider_id(1), provider_id(2)}));
}

}  // namespace
}  // namespace dedloc::replica
