#include "dedloc/dht/storage.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::dht {
namespace {

constexpr WallSeconds now = 1000.0;
const DhtId key = DhtId::of_text("key");
const PeerId nobody;

Bytes text(std::string_view words) { return to_bytes(words); }

TEST(Storage, the_record_that_expires_later_wins) {
    Storage storage;
    EXPECT_TRUE(storage.store(key, text("old"), now + 10, nobody, now));
    EXPECT_TRUE(storage.store(key, text("new"), now + 20, nobody, now));
    EXPECT_EQ(storage.store(key, text("late"), now + 20, nobody, now).error().kind(),
              ErrorKind::conflict);
    EXPECT_EQ(storage.store(key, text("late"), now + 15, nobody, now).error().kind(),
              ErrorKind::conflict);
    ASSERT_NE(storage.find(key, now), nullptr);
    EXPECT_EQ(storage.find(key, now)->regular->value, text("new"));
    EXPECT_EQ(storage.records(), 1u);
    storage.check_invariants();
}

TEST(Storage, expired_records_are_gone) {
    Storage storage;
    EXPECT_TRUE(storage.store(key, text("value"), now + 10, nobody, now));
    EXPECT_NE(storage.find(key, now + 9.9), nullptr);
    EXPECT_EQ(storage.find(key, now + 10), nullptr);
    EXPECT_EQ(storage.bytes(), 0u);
    EXPECT_FALSE(storage.store(key, text("value"), now - 1, nobody, now));
    EXPECT_FALSE(storage.store(key, text("value"), now, nobody, now));
}

TEST(Storage, subkeys_expire_each_for_itself) {
    Storage storage;
    EXPECT_TRUE(storage.store_subkey(key, text("a"), text("1"), now + 10, nobody, now));
    EXPECT_TRUE(storage.store_subkey(key, text("b"), text("2"), now + 20, nobody, now));
    EXPECT_TRUE(storage.store_subkey(key, text("a"), text("3"), now + 15, nobody, now));
    EXPECT_FALSE(storage.store_subkey(key, text("a"), text("4"), now + 15, nobody, now));
    EXPECT_EQ(storage.find(key, now)->dictionary.size(), 2u);
    EXPECT_EQ(storage.find(key, now)->dictionary.at(text("a")).value, text("3"));
    EXPECT_EQ(storage.find(key, now)->expiration(), now + 20);
    EXPECT_EQ(storage.find(key, now + 16)->dictionary.size(), 1u);
    EXPECT_EQ(storage.find(key, now + 21), nullptr);
    storage.check_invariants();
}

TEST(Storage, values_and_dictionaries_replace_each_other_by_expiration) {
    Storage storage;
    EXPECT_TRUE(storage.store(key, text("value"), now + 10, nobody, now));
    EXPECT_FALSE(storage.store_subkey(key, text("a"), text("1"), now + 10, nobody, now));
    EXPECT_TRUE(storage.store_subkey(key, text("a"), text("1"), now + 11, nobody, now));
    EXPECT_TRUE(storage.find(key, now)->is_dictionary());
    EXPECT_FALSE(storage.store(key, text("value"), now + 11, nobody, now));
    EXPECT_TRUE(storage.store(key, text("value"), now + 12, nobody, now));
    EXPECT_FALSE(storage.find(key, now)->is_dictionary());
    EXPECT_EQ(storage.records(), 1u);
    storage.check_invariants();
}

TEST(Storage, bounds_size_time_and_count) {
    StorageLimits limits;
    limits.records_max = 3;
    limits.value_bytes_max = 10;
    limits.subkey_bytes_max = 4;
    limits.subkeys_max = 2;
    limits.ahead_max = 100;
    Storage storage(limits);
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(storage.store(key, Bytes(11), now + 1, nobody, now));
    EXPECT_FALSE(storage.store_subkey(key, Bytes(5), {}, now + 1, nobody, now));
    EXPECT_FALSE(storage.store(key, {}, now + 101, nobody, now));
    EXPECT_FALSE(storage.store(key, {}, infinity, nobody, now));
    EXPECT_FALSE(storage.store(key, {}, std::nan(""), nobody, now));
    EXPECT_TRUE(storage.store_subkey(key, text("a"), {}, now + 50, nobody, now));
    EXPECT_TRUE(storage.store_subkey(key, text("b"), {}, now + 5, nobody, now));
    EXPECT_EQ(storage.store_subkey(key, text("c"), {}, now + 5, nobody, now).error().kind(),
              ErrorKind::overloaded);
    EXPECT_TRUE(storage.store(DhtId::of_text("2"), {}, now + 50, nobody, now));
    EXPECT_EQ(storage.store(DhtId::of_text("3"), {}, now + 50, nobody, now).error().kind(),
              ErrorKind::overloaded);
    EXPECT_TRUE(storage.store(DhtId::of_text("2"), {}, now + 51, nobody, now)) << "replaces";
    EXPECT_TRUE(storage.store(DhtId::of_text("3"), {}, now + 50, nobody, now + 6)) << "b expired";
    storage.check_invariants();
}

TEST(Storage, one_owner_cannot_use_up_the_room_of_the_others) {
    StorageLimits limits;
    limits.records_per_owner_max = 10;
    limits.bytes_per_owner_max = 5000;
    Storage storage(limits);
    const PeerId greedy = security::toy_peer_id(1);
    const PeerId modest = security::toy_peer_id(2);
    for (int i = 0; i < 100; ++i) {
        const DhtId other = DhtId::of_text(std::to_string(i));
        EXPECT_EQ(storage.store(other, {}, now + 10, greedy, now).has_value(), i < 10);
    }
    EXPECT_EQ(storage.records_of(greedy), 10u);
    EXPECT_TRUE(storage.store(key, {}, now + 10, modest, now));
    EXPECT_FALSE(storage.store_subkey(key, text("s"), Bytes(6000), now + 20, modest, now));
    EXPECT_TRUE(storage.store_subkey(key, text("s"), Bytes(4000), now + 20, modest, now));
    EXPECT_FALSE(storage.store_subkey(key, text("t"), Bytes(4000), now + 20, modest, now));
    EXPECT_TRUE(storage.store_subkey(key, text("s"), Bytes(4500), now + 21, modest, now));
    storage.check_invariants();
    storage.remove_expired(now + 30);
    EXPECT_EQ(storage.records(), 0u);
    EXPECT_EQ(storage.records_of(greedy), 0u);
    EXPECT_TRUE(storage.store(key, {}, now + 40, greedy, now + 30));
}

TEST(Storage, keeps_its_books_whatever_comes) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        StorageLimits limits;
        limits.records_max = 30;
        limits.bytes_max = 6000;
        limits.records_per_owner_max = 15;
        limits.bytes_per_owner_max = 3000;
        Storage storage(limits);
        WallSeconds time = now;
        for (int i = 0; i < 3000; ++i) {
            const DhtId where = DhtId::of_text(std::to_string(random.below(20)));
            const WallSeconds until = time + random.uniform(-1, 20);
            const PeerId owner =
                random.chance(0.2) ? PeerId() : security::toy_peer_id(random.below(3));
            const Bytes value(random.below(200));
            const Bytes subkey(random.below(3));
            if (random.chance(0.3))
                (void)storage.store(where, value, until, owner, time);
            else
                (void)storage.store_subkey(where, subkey, value, until, owner, time);
            time += random.uniform(0, 0.5);
            storage.check_invariants();
            const Stored* found = storage.find(where, time);
            if (found) {
                EXPECT_GT(found->expiration(), time);
            }
        }
        storage.remove_expired(time + 100);
        EXPECT_EQ(storage.bytes(), 0u);
    }
}

}  // namespace
}  // namespace dedloc::dht
