#include "dedloc/dht/dht_id.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dedloc::dht {
namespace {

nlohmann::json vectors() {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/hivemind_vectors.json");
    return nlohmann::json::parse(file);
}

TEST(DhtId, is_that_of_hivemind) {
    const auto all = vectors();
    int seen = 0;
    for (const auto& [name, vector] : all["msgpack_and_dhtid"].items()) {
        if (!vector.contains("dhtid") || name.starts_with("bytes ")) continue;  // raw
        // The vectors' keys are MessagePack values, of which we make text keys only.
        const Bytes packed = *base::from_hex(vector["msgpack"].get<std::string>());
        EXPECT_EQ(DhtId::of_bytes(packed).hex(), vector["dhtid"].get<std::string>()) << name;
        if (!name.starts_with("str ") || name == "str 40") continue;
        EXPECT_EQ(DhtId::of_text(name.substr(4)).hex(), vector["dhtid"].get<std::string>());
        ++seen;
    }
    EXPECT_EQ(seen, 4);
    EXPECT_EQ(DhtId::of_text(std::string(40, 'x')).hex(),
              all["msgpack_and_dhtid"]["str 40"]["dhtid"].get<std::string>());
    EXPECT_EQ(DhtId::of_bytes(as_bytes("my_key")).hex(),
              "0f7da3f82f86e5ea63d3ac270f091af4bcfa819a");
}

TEST(DhtId, distance_orders_like_a_number) {
    DhtId target;
    DhtId low;
    DhtId high;
    low.bytes[19] = 1;
    high.bytes[0] = 1;
    EXPECT_TRUE(nearer(target, low, high));
    EXPECT_FALSE(nearer(target, high, low));
    EXPECT_FALSE(nearer(target, low, low));
    target.bytes[0] = 1;
    EXPECT_TRUE(nearer(target, high, low));
    EXPECT_EQ(common_prefix_bits(low, high), 7);
    EXPECT_EQ(common_prefix_bits(low, low), 160);
    EXPECT_EQ(distance(low, high).bytes[19], 1);
    const std::uint64_t seed = 3;
    SCOPED_TRACE(seed);
    Random random(seed);
    for (int i = 0; i < 200; ++i) {
        const DhtId a = DhtId::random(random);
        const DhtId b = DhtId::random(random);
        const DhtId t = DhtId::random(random);
        EXPECT_EQ(nearer(t, a, b), distance(t, a) < distance(t, b));
    }
}

TEST(DhtId, has_twenty_bytes) {
    EXPECT_FALSE(DhtId::from(Bytes(19)));
    EXPECT_FALSE(DhtId::from(Bytes(21)));
    EXPECT_TRUE(DhtId::from(Bytes(20)));
}

}  // namespace
}  // namespace dedloc::dht
