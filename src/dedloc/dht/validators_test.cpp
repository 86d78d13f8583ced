#include "dedloc/dht/validators.h"

#include <gtest/gtest.h>

#include "dedloc/dht/node.h"
#include "dedloc/sim/world.h"

namespace dedloc::dht {
namespace {

using wire::encode_msgpack;
using wire::MsgpackValue;

Record record_under(const std::string& name, MsgpackValue subkey, MsgpackValue value) {
    return {.key = to_bytes(DhtId::of_text(name).view()),
            .subkey = encode_msgpack(subkey),
            .value = encode_msgpack(value),
            .expiration = 1234.5};
}

TEST(RsaSignatureValidator, a_protected_subkey_is_its_owners_alone) {
    const RsaSignatureValidator alice(security::RsaPrivateKey::generate());
    const RsaSignatureValidator mallory(security::RsaPrivateKey::generate());
    Record record = record_under("key", to_bytes(alice.owner_marker()), 5);
    EXPECT_FALSE(mallory.validate(record)) << "unsigned";
    record.value = alice.sign(record);
    EXPECT_TRUE(mallory.validate(record));
    EXPECT_EQ(mallory.strip(record), encode_msgpack(5));
    Record forged = record_under("key", to_bytes(alice.owner_marker()), 6);
    EXPECT_EQ(mallory.sign(forged), forged.value) << "not its to sign";
    forged.value.insert(forged.value.end(), record.value.begin() + 1, record.value.end());
    EXPECT_FALSE(alice.validate(forged)) << "somebody's signature of another value";
    Record later = record;
    later.expiration += 1;
    EXPECT_FALSE(alice.validate(later)) << "the expiration is signed";
    Record twice = record;
    twice.value = alice.sign(twice);
    EXPECT_FALSE(alice.validate(twice)) << "two signatures";
    const Record free = record_under("key", "subkey", 5);
    EXPECT_TRUE(alice.validate(free));
    EXPECT_EQ(alice.sign(free), free.value);
    Record of_two = record;
    of_two.subkey = to_bytes(alice.owner_marker() + mallory.owner_marker());
    EXPECT_FALSE(alice.validate(of_two));
    Record of_nobody = record_under("key", to_bytes("[owner:ssh-rsa AAAA]"), 5);
    EXPECT_FALSE(alice.validate(of_nobody));
}

TEST(SchemaValidator, is_strict_about_types_and_kinds_of_records) {
    using Kind = ValueRule::Kind;
    const ValueRule natural{.kind = Kind::integer, .min = 0};
    const ValueRule progress{.kind = Kind::map,
                             .of = {natural, {.kind = Kind::number, .min = 0}},
                             .names = {"epoch", "rate"}};
    const SchemaValidator schema(
        {{"count", {.value = natural}},
         {"peers", {.value = progress, .subkey = ValueRule{.kind = Kind::bytes, .owner = true}}}},
        /*allow_extra_keys=*/true,
        "run");
    const auto fits = [&](const std::string& name, MsgpackValue subkey, MsgpackValue value) {
        return schema.validate(record_under(name, std::move(subkey), std::move(value)));
    };
    EXPECT_TRUE(fits("run_count", MsgpackValue(), 3));
    EXPECT_FALSE(fits("run_count", MsgpackValue(), 3.0));
    EXPECT_FALSE(fits("run_count", MsgpackValue(), true));
    EXPECT_FALSE(fits("run_count", MsgpackValue(), -1));
    EXPECT_FALSE(fits("run_count", "subkey", 3)) << "an entry in place of a value";
    EXPECT_TRUE(fits("elsewhere", "subkey", "whatever"));
    const Bytes owner = to_bytes("[owner:x]");
    const auto report = [](MsgpackValue epoch, MsgpackValue rate) {
        MsgpackValue::Map map;
        map.entries.emplace_back("epoch", std::move(epoch));
        map.entries.emplace_back("rate", std::move(rate));
        return map;
    };
    EXPECT_TRUE(fits("run_peers", owner, report(3, 1.5)));
    EXPECT_FALSE(fits("run_peers", owner, report(3, 1))) << "an integer for a float";
    EXPECT_FALSE(fits("run_peers", owner, report(3.0, 1.5)));
    EXPECT_FALSE(fits("run_peers", to_bytes("nobody"), report(3, 1.5)));
    EXPECT_FALSE(fits("run_peers", "[owner:x]", report(3, 1.5))) << "text for bytes";
    EXPECT_FALSE(fits("run_peers", MsgpackValue(), report(3, 1.5))) << "a plain map";
    MsgpackValue::Map more = report(3, 1.5);
    more.entries.emplace_back("extra", 1);
    EXPECT_FALSE(fits("run_peers", owner, more));
    const SchemaValidator closed({{"count", {.value = natural}}}, /*allow_extra_keys=*/false);
    EXPECT_FALSE(closed.validate(record_under("elsewhere", MsgpackValue(), 3)));
}

TEST(ValidatorChain, check_signatures_before_values_and_sign_after) {
    const auto rsa = std::make_shared<RsaSignatureValidator>(security::RsaPrivateKey::generate());
    const ValueRule number{.kind = ValueRule::Kind::integer};
    const auto schema = std::make_shared<SchemaValidator>(std::map<std::string, FieldRule>{
        {"key", {.value = number, .subkey = ValueRule{.kind = ValueRule::Kind::bytes}}}});
    const ValidatorChain both({schema, rsa});
    Record record = record_under("key", to_bytes(rsa->owner_marker()), 5);
    record.value = both.sign(record);
    EXPECT_TRUE(both.validate(record));
    EXPECT_EQ(both.strip(record), encode_msgpack(5));
    Record wrong = record_under("key", to_bytes(rsa->owner_marker()), "five");
    wrong.value = both.sign(wrong);
    EXPECT_FALSE(both.validate(wrong));
}

// ---- in a table

struct Validated {
    Validated() {
        for (std::size_t i = 0; i < 5; ++i) {
            DhtOptions options;
            validators.push_back(
                std::make_shared<RsaSignatureValidator>(security::RsaPrivateKey::generate()));
            options.validator = validators.back();
            machines.push_back(&world.add_node());
            nodes.push_back(
                std::make_unique<DhtNode>(machines[i]->host(), verifier, std::move(options)));
            nodes.back()->start();
            if (i > 0) world.run_task(join(i));
        }
    }
    ~Validated() {
        for (auto& node : nodes) world.run_task(node->stop());
    }
    Task<void> join(std::size_t at) {
        std::vector<PeerId> first{machines[0]->id()};
        const TimePoint soon = world.now() + 30s;
        (void)co_await nodes[at]->bootstrap(std::move(first), soon);
    }
    Task<void> store(std::size_t at, std::string subkey, int value, double ahead, bool& stored) {
        DhtItem item;
        item.key = DhtId::of_text("key");
        item.subkey = encode_msgpack(to_bytes(subkey));
        item.value = encode_msgpack(value);
        item.expiration = machines[at]->clock().wall_now() + ahead;
        const TimePoint soon = world.now() + 30s;
        const auto report = co_await nodes[at]->store(std::move(item), soon);
        stored = report.has_value();
    }
    Task<void> get(std::size_t at, Stored& out) {
        const TimePoint soon = world.now() + 30s;
        auto found = co_await nodes[at]->get(DhtId::of_text("key"), Freshness::latest, soon);
        if (found && *found) out = **std::move(found);
    }

    sim::World world{1};
    security::ToyVerifier verifier;
    std::vector<std::shared_ptr<RsaSignatureValidator>> validators;
    std::vector<sim::SimNode*> machines;
    std::vector<std::unique_ptr<DhtNode>> nodes;
};

TEST(DhtNode, mallory_cannot_write_what_is_protected_as_bobs) {
    Validated swarm;
    const std::string bobs = swarm.validators[1]->owner_marker();
    bool stored = false;
    swarm.world.run_task(swarm.store(1, bobs, 7, 100, stored));
    ASSERT_TRUE(stored);
    swarm.world.run_task(swarm.store(2, bobs, 666, 200, stored));
    EXPECT_FALSE(stored);
    Stored found;
    swarm.world.run_task(swarm.get(3, found));
    const auto entry = found.dictionary.find(encode_msgpack(to_bytes(bobs)));
    ASSERT_NE(entry, found.dictionary.end());
    EXPECT_EQ(entry->second.value, encode_msgpack(7)) << "and no signature in it";
}

}  // namespace
}  // namespace dedloc::dht
