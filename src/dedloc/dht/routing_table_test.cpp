#include "dedloc/dht/routing_table.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::dht {
namespace {

Contact bound_contact(std::uint64_t seed) {
    const PeerId peer = security::toy_peer_id(seed);
    return {.id = DhtId::of_peer(peer), .peer = peer};
}

Contact unbound_contact(std::uint64_t seed) {
    Random random(seed);
    return {.id = DhtId::random(random), .peer = security::toy_peer_id(seed)};
}

DhtId id_with(std::uint8_t first, std::uint8_t last) {
    DhtId id;
    id.bytes[0] = first;
    id.bytes[19] = last;
    return id;
}

TEST(RoutingTable, finds_the_nearest_as_a_full_search_does) {
    const std::uint64_t seed = 11;
    SCOPED_TRACE(seed);
    Random random(seed);
    RoutingTable table(DhtId::random(random), {.bucket_size = 5, .depth_modulo = 3});
    for (std::uint64_t i = 0; i < 1500; ++i) table.add(bound_contact(i));
    table.check_invariants();
    EXPECT_GT(table.buckets_count(), 8u);
    for (int i = 0; i < 200; ++i) {
        const DhtId target = DhtId::random(random);
        std::vector<Contact> expected = table.all();
        std::optional<DhtId> exclude;
        if (i % 2 == 0) exclude = expected[random.below(expected.size())].id;
        std::erase_if(expected, [&](const Contact& contact) { return contact.id == exclude; });
        std::sort(expected.begin(), expected.end(), [&](const Contact& a, const Contact& b) {
            return nearer(target, a.id, b.id);
        });
        expected.resize(12);
        EXPECT_EQ(table.nearest(target, 12, exclude), expected);
    }
}

TEST(RoutingTable, knows_everybody_near_itself) {
    const Contact self = bound_contact(100'000);
    RoutingTable table(self.id, {.bucket_size = 20, .depth_modulo = 5});
    std::vector<Contact> everybody;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        everybody.push_back(bound_contact(i));
        table.add(everybody.back());
    }
    std::sort(everybody.begin(), everybody.end(), [&](const Contact& a, const Contact& b) {
        return nearer(self.id, a.id, b.id);
    });
    everybody.resize(20);
    EXPECT_EQ(table.nearest(self.id, 20), everybody);
}

TEST(RoutingTable, asks_whether_the_oldest_lives_and_replaces_it_if_not) {
    // Our id is in the left half, so the right half never splits further with depth_modulo 1.
    RoutingTable table(id_with(0x01, 0), {.bucket_size = 2, .depth_modulo = 1});
    const auto contact = [](std::uint8_t last) {
        return Contact{.id = id_with(0x80, last), .peer = security::toy_peer_id(last)};
    };
    table.add({.id = id_with(0x02, 1), .peer = security::toy_peer_id(77)});
    EXPECT_TRUE(table.add(contact(1)).is_new);
    EXPECT_TRUE(table.add(contact(2)).is_new);
    const auto third = table.add(contact(3));
    EXPECT_FALSE(third.is_new);
    ASSERT_TRUE(third.ping);
    EXPECT_EQ(*third.ping, contact(1));
    EXPECT_FALSE(table.add(contact(4)).ping) << "one question at a time";
    table.add(contact(1));  // it answered
    EXPECT_TRUE(table.contains(contact(1).id));
    const auto fifth = table.add(contact(5));
    ASSERT_TRUE(fifth.ping);
    EXPECT_EQ(*fifth.ping, contact(2)) << "now that one is the oldest";
    table.remove(contact(2).id);
    EXPECT_FALSE(table.contains(contact(2).id));
    EXPECT_TRUE(table.contains(contact(5).id)) << "the newest replacement took its place";
    table.check_invariants();
}

TEST(RoutingTable, a_peer_has_one_place) {
    RoutingTable table(id_with(0x01, 0), {});
    const PeerId peer = security::toy_peer_id(1);
    table.add({.id = id_with(0x80, 1), .peer = peer});
    table.add({.id = id_with(0x90, 2), .peer = peer});
    EXPECT_EQ(table.size(), 1u);
    EXPECT_FALSE(table.contains(id_with(0x80, 1)));
    EXPECT_EQ(table.id_of(peer), id_with(0x90, 2));
}

TEST(RoutingTable, an_id_belongs_to_the_peer_whose_hash_it_is) {
    RoutingTable table(id_with(0x01, 0), {});
    const Contact owner = bound_contact(5);
    table.add({.id = owner.id, .peer = security::toy_peer_id(6)});
    table.add(owner);
    EXPECT_EQ(table.peer_of(owner.id), owner.peer);
    table.add({.id = owner.id, .peer = security::toy_peer_id(6)});
    EXPECT_EQ(table.peer_of(owner.id), owner.peer);
    table.check_invariants();
}

TEST(RoutingTable, bound_ids_drive_out_chosen_ones) {
    RoutingTable table(bound_contact(999).id, {.bucket_size = 4, .depth_modulo = 2});
    for (std::uint64_t i = 0; i < 200; ++i) table.add(unbound_contact(5000 + i));
    for (std::uint64_t i = 0; i < 400; ++i) table.add(bound_contact(i));
    for (std::uint64_t i = 0; i < 200; ++i) table.add(unbound_contact(6000 + i));
    table.check_invariants();
    std::size_t chosen = 0;  // left only in buckets that have room
    for (const Contact& contact : table.all()) chosen += contact.bound() ? 0 : 1;
    EXPECT_LT(chosen, table.size() / 6);
    EXPECT_GT(table.size(), 20u);

    RoutingTable strict(bound_contact(999).id, {.bound_only = true});
    strict.add(unbound_contact(1));
    EXPECT_EQ(strict.size(), 0u);
}

TEST(RoutingTable, keeps_its_invariants_whatever_comes) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        RoutingTable table(DhtId::random(random),
                           {.bucket_size = 3, .depth_modulo = 2, .nodes_max = 60});
        for (int i = 0; i < 2000; ++i) {
            const std::uint64_t who = random.below(150);
            if (random.chance(0.5))
                table.add(bound_contact(who));
            else if (random.chance(0.5))
                table.add({.id = unbound_contact(random.below(150)).id,
                           .peer = security::toy_peer_id(who)});
            else if (table.size() > 0)
                table.remove(random.chance(0.5) ? bound_contact(who).id
                                                : table.all()[random.below(table.size())].id);
            table.check_invariants();
        }
    }
}

}  // namespace
}  // namespace dedloc::dht
