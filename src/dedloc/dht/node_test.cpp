#include "dedloc/dht/node.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/dht/core.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {
namespace {

using Got = Result<std::optional<Stored>>;

// A DHT of simulated computers. Destroying it stops every node.
class Swarm {
  public:
    explicit Swarm(std::uint64_t seed, sim::WorldOptions options = {}) : world(seed, options) {}
    ~Swarm() {
        for (auto& node : nodes) world.run_task(node->stop());
    }

    DhtNode& add(DhtOptions options = {}, sim::NodeOptions machine = {}) {
        machines.push_back(&world.add_node(machine));
        nodes.push_back(
            std::make_unique<DhtNode>(machines.back()->host(), verifier, std::move(options)));
        nodes.back()->start();
        return *nodes.back();
    }
    // Each joins through the first.
    void add_joined(std::size_t count, DhtOptions options = {}) {
        for (std::size_t i = 0; i < count; ++i) {
            add(options);
            if (nodes.size() == 1) continue;
            ASSERT_TRUE(join(nodes.size() - 1));
        }
    }
    Result<BootstrapReport> join(std::size_t index) {
        Result<BootstrapReport> report = BootstrapReport{};
        world.run_task(run_join(*this, index, report));
        return report;
    }
    Result<StoreReport> store(std::size_t index, DhtItem item) {
        Result<StoreReport> report = StoreReport{};
        world.run_task(run_store(*this, index, std::move(item), report));
        return report;
    }
    Result<StoreReport> store_signed(std::size_t index, DhtId key, Bytes payload, double ttl) {
        const security::ToySigner& signer = machines[index]->signer();
        const WallSeconds expiration = wall() + ttl;
        DhtItem item{.key = key,
                     .subkey = subkey_of(signer.id()),
                     .value = sign_record(signer, key, payload, expiration),
                     .expiration = expiration};
        return store(index, std::move(item));
    }
    Got get(std::size_t index, DhtId key, Freshness freshness = Freshness::latest) {
        Got got = std::optional<Stored>();
        world.run_task(run_get(*this, index, key, freshness, got));
        return got;
    }
    WallSeconds wall() { return machines[0]->clock().wall_now(); }
    TimePoint soon(std::size_t index) { return machines[index]->clock().now() + 60s; }

    static Task<void> run_join(Swarm& swarm, std::size_t index, Result<BootstrapReport>& out) {
        std::vector<PeerId> peers{swarm.machines[0]->id()};
        out = co_await swarm.nodes[index]->bootstrap(std::move(peers), swarm.soon(index));
    }
    static Task<void> run_store(Swarm& swarm,
                                std::size_t index,
                                DhtItem item,
                                Result<StoreReport>& out) {
        out = co_await swarm.nodes[index]->store(std::move(item), swarm.soon(index));
    }
    static Task<void> run_get(
        Swarm& swarm, std::size_t index, DhtId key, Freshness freshness, Got& out) {
        out = co_await swarm.nodes[index]->get(key, freshness, swarm.soon(index));
    }

    sim::World world;
    security::ToyVerifier verifier;
    std::vector<sim::SimNode*> machines;
    std::vector<std::unique_ptr<DhtNode>> nodes;
};

DhtItem text_item(std::string_view key, std::string_view value, WallSeconds expiration) {
    return {.key = DhtId::of_text(key),
            .subkey = std::nullopt,
            .value = wire::encode_msgpack(value),
            .expiration = expiration};
}

std::string text_of(const Got& got) {
    if (!got) return "error " + to_string(got.error());
    if (!got->has_value()) return "nothing";
    if (!(*got)->regular) return "dictionary";
    const auto value = wire::decode_msgpack((*got)->regular->value);
    const std::string* text = value ? value->get<std::string>() : nullptr;
    return text ? *text : "not a text";
}

TEST(DhtNode, one_node_alone_stores_and_finds) {
    Swarm swarm(1);
    swarm.add();
    const auto stored = swarm.store(0, text_item("a", "b", swarm.wall() + 60));
    ASSERT_TRUE(stored) << to_string(stored.error());
    EXPECT_EQ(stored->accepted, 1u);
    EXPECT_EQ(text_of(swarm.get(0, DhtId::of_text("a"))), "b");
    EXPECT_EQ(text_of(swarm.get(0, DhtId::of_text("other"))), "nothing");
}

TEST(DhtNode, fifty_nodes_find_what_any_of_them_stored_and_survive_losses) {
    const std::uint64_t seed = 5;
    SCOPED_TRACE(seed);
    Swarm swarm(seed);
    swarm.add_joined(50);
    for (std::size_t i = 0; i < 50; ++i) {
        const std::string name = "key " + std::to_string(i);
        const auto stored = swarm.store(i, text_item(name, name, swarm.wall() + 3600));
        ASSERT_TRUE(stored) << to_string(stored.error());
        EXPECT_EQ(stored->accepted, 5u);
    }
    Random random(seed);
    for (std::size_t i = 0; i < 50; ++i) {
        const std::string name = "key " + std::to_string(i);
        EXPECT_EQ(text_of(swarm.get(random.below(50), DhtId::of_text(name), Freshness::any)), name);
    }
    // A tenth of them die, without a word.
    for (std::size_t i = 0; i < 5; ++i) swarm.machines[10 * i + 3]->lose_machine();
    std::size_t found = 0;
    for (std::size_t i = 0; i < 100; ++i) {
        std::size_t who = random.below(50);
        if (who % 10 == 3) ++who;
        const std::string name = "key " + std::to_string(i % 50);
        found += text_of(swarm.get(who, DhtId::of_text(name))) == name ? 1u : 0u;
    }
    EXPECT_GE(found, 99u);
    // Stores go on as well, at the next nearest nodes.
    const auto stored = swarm.store(0, text_item("afterwards", "x", swarm.wall() + 60));
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->accepted, 5u);
}

TEST(DhtNode, records_expire_and_the_newest_wins) {
    Swarm swarm(2);
    swarm.add_joined(12);
    ASSERT_TRUE(swarm.store(3, text_item("k", "old", swarm.wall() + 100)));
    ASSERT_TRUE(swarm.store(4, text_item("k", "new", swarm.wall() + 200)));
    const auto late = swarm.store(5, text_item("k", "late", swarm.wall() + 150));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind(), ErrorKind::conflict);
    EXPECT_EQ(text_of(swarm.get(7, DhtId::of_text("k"))), "new");
    swarm.world.run_for(201s);
    EXPECT_EQ(text_of(swarm.get(7, DhtId::of_text("k"))), "nothing");
    EXPECT_EQ(text_of(swarm.get(7, DhtId::of_text("k"), Freshness::any)), "nothing");
    EXPECT_FALSE(swarm.store(3, text_item("k", "dead", swarm.wall() - 1)));
}

TEST(DhtNode, storing_the_same_again_is_harmless) {
    Swarm swarm(3);
    swarm.add_joined(8);
    const DhtItem item = text_item("k", "v", swarm.wall() + 100);
    ASSERT_TRUE(swarm.store(1, item));
    EXPECT_TRUE(swarm.store(1, item)) << "a retry after a lost answer";
}

TEST(DhtNode, dictionaries_merge_by_subkey) {
    Swarm swarm(4);
    swarm.add_joined(12);
    const DhtId key = DhtId::of_text("status");
    for (std::size_t i = 0; i < 12; ++i)
        ASSERT_TRUE(
            swarm.store_signed(i, key, to_bytes("step 1"), 60 + 10 * static_cast<double>(i)));
    ASSERT_TRUE(swarm.store_signed(2, key, to_bytes("step 2"), 300));
    const auto got = swarm.get(9, key);
    ASSERT_TRUE(got && got->has_value());
    const auto entries = signed_entries(**got);
    ASSERT_EQ(entries.size(), 12u);
    for (const SignedEntry& entry : entries)
        EXPECT_EQ(as_text(entry.payload),
                  entry.signer == swarm.machines[2]->id() ? "step 2" : "step 1");
    swarm.world.run_for(105s);  // each expires for itself
    const auto later = swarm.get(9, key);
    ASSERT_TRUE(later && later->has_value());
    EXPECT_EQ(signed_entries(**later).size(), 8u) << "peers 5 to 11, and 2";
}

TEST(DhtNode, a_forged_record_is_refused_by_nodes_and_by_readers) {
    Swarm swarm(5);
    swarm.add_joined(8);
    const DhtId key = DhtId::of_text("status");
    const WallSeconds until = swarm.wall() + 60;
    ASSERT_TRUE(swarm.store_signed(1, key, to_bytes("true"), 30));
    // Peer 2 writes in the name of peer 1.
    DhtItem forged{.key = key,
                   .subkey = subkey_of(swarm.machines[1]->id()),
                   .value = sign_record(swarm.machines[2]->signer(), key, to_bytes("false"), until),
                   .expiration = until};
    const auto stored = swarm.store(2, forged);
    ASSERT_FALSE(stored);
    for (std::size_t i = 0; i < 8; ++i) {
        const auto got = swarm.get(i, key);
        ASSERT_TRUE(got && got->has_value());
        ASSERT_EQ(signed_entries(**got).size(), 1u);
        EXPECT_EQ(as_text(signed_entries(**got)[0].payload), "true");
    }
    // A node that serves a forged record convinces nobody.
    security::ToyVerifier verifier;
    DhtNode::Core reader(swarm.machines[3]->host(), verifier, {});
    wire::DhtDictionary dictionary;
    dictionary.entries.push_back({.subkey = *wire::decode_msgpack(*forged.subkey),
                                  .value = forged.value,
                                  .expiration_time = until});
    wire::FindResult lie;
    lie.type = wire::FindType::dictionary;
    lie.value = wire::encode_dht_dictionary(dictionary);
    lie.expiration_time = until;
    Storage into;
    reader.put_result(into, key, lie);
    EXPECT_EQ(into.records(), 0u);
    EXPECT_EQ(reader.forged, 1u);
}

TEST(DhtNode, a_client_asks_and_stores_but_is_in_no_table) {
    Swarm swarm(6);
    swarm.add_joined(6);
    DhtOptions client;
    client.client_mode = true;
    swarm.add(client);
    ASSERT_TRUE(swarm.join(6));
    ASSERT_TRUE(swarm.store(6, text_item("k", "v", swarm.wall() + 60)));
    EXPECT_EQ(text_of(swarm.get(6, DhtId::of_text("k"))), "v");
    EXPECT_EQ(text_of(swarm.get(2, DhtId::of_text("k"))), "v");
    EXPECT_EQ(swarm.nodes[6]->records(), 0u);
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_FALSE(swarm.nodes[i]->table().contains(swarm.nodes[6]->id()));
}

TEST(DhtNode, a_newcomer_is_given_the_records_it_is_near_to) {
    Swarm swarm(7);
    swarm.add_joined(3);
    for (int i = 0; i < 20; ++i)
        ASSERT_TRUE(swarm.store(0, text_item(std::to_string(i), "v", swarm.wall() + 600)));
    swarm.add_joined(1);
    swarm.world.run_for(5s);
    EXPECT_EQ(swarm.nodes[3]->records(), 20u) << "four nodes, five replicas: all of them";
}

TEST(DhtNode, learns_where_to_dial_from_answers) {
    sim::WorldOptions options;
    options.everyone_knows_everyone = false;
    Swarm swarm(8, options);
    for (std::size_t i = 0; i < 15; ++i) {
        swarm.add();
        if (i == 0) continue;
        swarm.machines[i]->host().add_addresses(swarm.machines[0]->id(),
                                                {swarm.machines[0]->address()});
        ASSERT_TRUE(swarm.join(i));
    }
    ASSERT_TRUE(swarm.store(14, text_item("k", "v", swarm.wall() + 60)));
    EXPECT_EQ(text_of(swarm.get(13, DhtId::of_text("k"))), "v");
    EXPECT_GE(swarm.nodes[14]->table().size(), 12u);
}

TEST(DhtNode, a_computer_whose_clock_is_wrong_stores_and_finds_by_the_time_of_the_others) {
    for (const auto skew : {-100s, 100s}) {
        Swarm swarm(9);
        swarm.add_joined(3);
        sim::NodeOptions machine;
        machine.wall_skew = skew;
        swarm.add({}, machine);
        const auto joined = swarm.join(3);
        ASSERT_TRUE(joined);
        EXPECT_NEAR(joined->clock_difference_s, -to_seconds(skew), 0.2);
        EXPECT_NEAR(swarm.nodes[3]->wall_now(), swarm.wall(), 0.2);
        // Both ways: what it stores for 14 s is there for them, and what they store for it.
        ASSERT_TRUE(swarm.store(3, text_item("its", "v", swarm.nodes[3]->wall_now() + 14)));
        EXPECT_EQ(text_of(swarm.get(1, DhtId::of_text("its"))), "v");
        ASSERT_TRUE(swarm.store(1, text_item("theirs", "v", swarm.nodes[1]->wall_now() + 14)));
        EXPECT_EQ(text_of(swarm.get(3, DhtId::of_text("theirs"))), "v");
        swarm.world.run_for(15s);
        EXPECT_EQ(text_of(swarm.get(1, DhtId::of_text("its"))), "nothing");
        EXPECT_EQ(text_of(swarm.get(3, DhtId::of_text("theirs"))), "nothing");
    }
}

// The first node of a table hears of a newcomer's clock as well: of two the later one counts.
TEST(DhtNode, two_computers_agree_on_a_time_whichever_clock_is_wrong) {
    for (const auto skew : {-100s, 100s}) {
        Swarm swarm(10);
        swarm.add();
        sim::NodeOptions machine;
        machine.wall_skew = skew;
        swarm.add({}, machine);
        ASSERT_TRUE(swarm.join(1));
        EXPECT_NEAR(swarm.nodes[0]->wall_now(), swarm.nodes[1]->wall_now(), 0.2);
    }
}

TEST(DhtNode, joining_nobody_fails_with_a_reason) {
    Swarm swarm(10);
    swarm.add();
    swarm.add();
    swarm.machines[0]->lose_machine();
    const auto joined = swarm.join(1);
    ASSERT_FALSE(joined);
    EXPECT_NE(joined.error().message().find("none of the first peers"), std::string::npos);
}

TEST(DhtNode, quotas_hold_against_a_greedy_peer) {
    Swarm swarm(11);
    DhtOptions options;
    options.storage.records_per_owner_max = 30;
    swarm.add_joined(6, options);
    std::size_t accepted = 0;
    for (int i = 0; i < 60; ++i)
        accepted += swarm.store(1, text_item(std::to_string(i), "x", swarm.wall() + 600)) ? 1u : 0u;
    for (std::size_t i = 0; i < 6; ++i)
        if (i != 1) {
            EXPECT_LE(swarm.nodes[i]->records(), 30u);
        }
    EXPECT_TRUE(swarm.store(2, text_item("modest", "x", swarm.wall() + 600)));
    EXPECT_GE(accepted, 30u);
}

TEST(DhtNode, answers_the_golden_requests_of_hivemind) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/hivemind_vectors.json");
    const auto protobuf = nlohmann::json::parse(file)["protobuf"];
    const auto vector = [&](const char* name) {
        const auto& entry = protobuf[name];
        return *base::from_hex((entry.is_string() ? entry : entry["hex"]).get<std::string>());
    };
    Swarm swarm(12);
    swarm.add();
    DhtNode::Core core(swarm.machines[0]->host(), swarm.verifier, {});
    const PeerId stranger = security::toy_peer_id(1234);
    for (const char* name : {"StoreRequest", "StoreRequest client mode"}) {
        const auto answer = core.on_store(stranger, vector(name));
        ASSERT_TRUE(answer) << to_string(answer.error());
        const auto asked = *wire::decode<wire::StoreRequest>(vector(name));
        EXPECT_EQ(wire::decode<wire::StoreResponse>(*answer)->store_ok.size(), asked.keys.size());
    }
    const auto answer = core.on_find(stranger, vector("FindRequest"));
    ASSERT_TRUE(answer) << to_string(answer.error());
    const auto asked = *wire::decode<wire::FindRequest>(vector("FindRequest"));
    EXPECT_EQ(wire::decode<wire::FindResponse>(*answer)->results.size(), asked.keys.size());
    swarm.world.run_task(core.scope.stop());
}

TEST(DhtNode, a_key_that_is_asked_for_twice_is_answered_once) {
    Swarm swarm(14);
    swarm.add();
    DhtNode::Core core(swarm.machines[0]->host(), swarm.verifier, {});
    const PeerId stranger = security::toy_peer_id(1234);
    const DhtId key = DhtId::of_text("large");
    const DhtId other = DhtId::of_text("other");
    const WallSeconds later = swarm.wall() + 60;
    ASSERT_TRUE(
        core.put_record(core.storage, key, nil_subkey(), Bytes(200'000, 7), later, stranger));
    wire::FindRequest request;
    for (int i = 0; i < 10; ++i) request.keys.push_back(to_bytes(key.view()));
    request.keys.push_back(to_bytes(other.view()));
    const auto answer = core.on_find(stranger, wire::encode(request));
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_LT(answer->size(), 210'000u);
    const auto results = wire::decode<wire::FindResponse>(*answer)->results;
    ASSERT_EQ(results.size(), request.keys.size());
    EXPECT_EQ(results.front().type, wire::FindType::regular);
    EXPECT_EQ(results.front().value.size(), 200'000u);
    EXPECT_EQ(results.at(1).value.size(), 0u);
    swarm.world.run_task(core.scope.stop());
}

TEST(DhtNode, garbage_is_an_error_and_nothing_else) {
    Swarm swarm(13);
    swarm.add();
    DhtNode::Core core(swarm.machines[0]->host(), swarm.verifier, {});
    const PeerId stranger = security::toy_peer_id(1234);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const Bytes bytes = random.bytes(random.below(100));
        (void)core.on_store(stranger, bytes);
        (void)core.on_find(stranger, bytes);
    }
    wire::StoreRequest uneven;
    uneven.keys.push_back(Bytes(20));
    EXPECT_FALSE(core.on_store(stranger, wire::encode(uneven)));
    wire::FindRequest short_key;
    short_key.keys.push_back(Bytes(3));
    EXPECT_FALSE(core.on_find(stranger, wire::encode(short_key)));
    EXPECT_EQ(core.storage.records(), 0u);
    swarm.world.run_task(core.scope.stop());
}

TEST(DhtNode, who_was_cut_off_says_so_and_joins_again_by_itself) {
    Swarm swarm(4);
    swarm.add_joined(12);
    ASSERT_TRUE(swarm.store(1, text_item("a", "b", swarm.wall() + 36000)));
    std::vector<std::string> others;
    for (std::size_t i = 0; i < 12; ++i)
        if (i != 7) others.push_back(swarm.machines[i]->name());
    swarm.world.partition({others});
    for (int i = 0; i < 4; ++i) {
        const auto got = swarm.get(7, DhtId::of_text("never stored"));
        ASSERT_FALSE(got);  // and not "nothing is there"
        swarm.world.run_for(60s);
    }
    swarm.world.heal();
    swarm.world.run_for(60s);
    EXPECT_EQ(text_of(swarm.get(7, DhtId::of_text("a"))), "b");
    EXPECT_EQ(text_of(swarm.get(7, DhtId::of_text("never stored"))), "nothing");
}

Task<void> get_several(Swarm& swarm,
                       std::size_t index,
                       std::vector<DhtId> keys,
                       Freshness freshness,
                       std::vector<Got>& out) {
    out = co_await swarm.nodes[index]->get_many(std::move(keys), freshness, swarm.soon(index));
}

std::size_t count_finds(Swarm& swarm, const std::function<void()>& action) {
    std::size_t finds = 0;
    swarm.world.on_message([&](std::size_t, std::size_t, const std::string& method) {
        if (method == find_method) ++finds;
    });
    action();
    swarm.world.on_message({});
    return finds;
}

TEST(DhtNode, keys_that_are_asked_together_travel_together) {
    Swarm swarm(6);
    swarm.add_joined(12);
    std::vector<DhtId> keys;
    for (int i = 0; i < 16; ++i) {
        const std::string name = "key " + std::to_string(i);
        ASSERT_TRUE(swarm.store(1, text_item(name, name, swarm.wall() + 3600)));
        keys.push_back(DhtId::of_text(name));
    }
    std::vector<Got> one;
    const std::size_t alone = count_finds(swarm, [&] {
        swarm.world.run_task(get_several(swarm, 9, {keys[0]}, Freshness::latest, one));
    });
    std::vector<Got> all;
    const std::size_t together = count_finds(
        swarm, [&] { swarm.world.run_task(get_several(swarm, 8, keys, Freshness::latest, all)); });
    for (std::size_t i = 0; i < keys.size(); ++i)
        EXPECT_EQ(text_of(all[i]), "key " + std::to_string(i));
    EXPECT_LT(together, 8 * alone);  // not 16 times
}

TEST(DhtNode, gets_of_one_key_at_the_same_time_share_a_look_up) {
    Swarm swarm(6);
    swarm.add_joined(12);
    ASSERT_TRUE(swarm.store(1, text_item("a", "b", swarm.wall() + 3600)));
    std::vector<Got> got;
    const std::size_t alone = count_finds(swarm, [&] {
        swarm.world.run_task(get_several(swarm, 9, {DhtId::of_text("a")}, Freshness::latest, got));
    });
    const std::size_t shared = count_finds(swarm, [&] {
        const std::vector<DhtId> keys(10, DhtId::of_text("a"));
        swarm.world.run_task(get_several(swarm, 9, keys, Freshness::latest, got));
    });
    ASSERT_EQ(got.size(), 10u);
    for (const Got& each : got) EXPECT_EQ(text_of(each), "b");
    EXPECT_LE(shared, alone);
}

TEST(DhtNode, a_cached_key_that_is_read_is_fetched_again_before_it_expires) {
    Swarm swarm(6);
    DhtOptions few;
    few.num_replicas = 2;
    swarm.add_joined(30, few);
    const DhtId key = DhtId::of_text("a");
    ASSERT_TRUE(swarm.store(1, text_item("a", "old", swarm.wall() + 30)));
    std::size_t reader = 2;  // one that does not hold it
    while (swarm.nodes[reader]->records() > 0) ++reader;
    EXPECT_EQ(text_of(swarm.get(reader, key, Freshness::any)), "old");
    EXPECT_EQ(text_of(swarm.get(reader, key, Freshness::any)), "old");  // of its cache
    ASSERT_TRUE(swarm.store(1, text_item("a", "new", swarm.wall() + 600)));
    EXPECT_EQ(text_of(swarm.get(reader, key, Freshness::any)), "old");
    swarm.world.run_for(27s);
    Got got = std::optional<Stored>();
    const std::size_t finds =
        count_finds(swarm, [&] { got = swarm.get(reader, key, Freshness::any); });
    EXPECT_EQ(text_of(got), "new");
    EXPECT_EQ(finds, 0u);
}

Task<void> list_all(Swarm& swarm, std::size_t index, std::vector<Contact>& out) {
    out = co_await swarm.nodes[index]->list_nodes(1000, swarm.soon(index));
}

TEST(DhtNode, lists_all_nodes_of_the_table) {
    Swarm swarm(6);
    swarm.add_joined(60);
    std::vector<Contact> nodes;
    swarm.world.run_task(list_all(swarm, 33, nodes));
    EXPECT_EQ(nodes.size(), 59u);  // all but itself
}

TEST(DhtNode, swarms_that_began_apart_become_one_when_they_see_each_others_first_peers) {
    Swarm swarm(8);
    for (int i = 0; i < 16; ++i) swarm.add();
    // Two halves that cannot reach each other at first; both know the first peer of either.
    std::vector<std::string> half;
    for (std::size_t i = 0; i < 8; ++i) half.push_back(swarm.machines[i]->name());
    swarm.world.partition({half});
    for (auto& node : swarm.nodes)
        node->stay_joined({swarm.machines[0]->id(), swarm.machines[8]->id()});
    swarm.world.run_for(30s);
    ASSERT_TRUE(swarm.store(1, text_item("a", "b", swarm.wall() + 36000)));
    EXPECT_EQ(text_of(swarm.get(5, DhtId::of_text("a"))), "b");
    EXPECT_EQ(text_of(swarm.get(12, DhtId::of_text("a"))), "nothing");
    swarm.world.heal();
    swarm.world.run_for(150s);
    EXPECT_EQ(text_of(swarm.get(12, DhtId::of_text("a"))), "b");
}

}  // namespace
}  // namespace dedloc::dht
