// One member against a table: it floods, forges, answers garbage, and claims to be the nearest.

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/dht/node.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/dht_messages.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {
namespace {

constexpr std::size_t honest_count = 30;
constexpr std::size_t hostile_keys = 100;
constexpr std::size_t hostile_records = 4000;

struct Besieged {
    Besieged() {
        DhtOptions options;
        options.storage.records_per_owner_max = 500;
        options.storage.bytes_per_owner_max = 1u << 20;
        for (std::size_t i = 0; i < honest_count; ++i) {
            machines.push_back(&world.add_node());
            nodes.push_back(std::make_unique<DhtNode>(machines[i]->host(), verifier, options));
            nodes.back()->start();
            if (i > 0) world.run_task(join(i));
        }
        enemy = &world.add_node();
        for (const char* method : {ping_method, store_method, find_method})
            enemy->host().handle_call(
                method, [this](PeerId, Bytes request) { return answer(std::move(request)); });
    }
    ~Besieged() {
        for (auto& node : nodes) world.run_task(node->stop());
    }
    static DhtId key(std::size_t index) { return DhtId::of_text("key " + std::to_string(index)); }
    TimePoint soon() { return world.now() + 60s; }

    Task<void> join(std::size_t at) {
        std::vector<PeerId> first{machines[0]->id()};
        EXPECT_TRUE(co_await nodes[at]->bootstrap(std::move(first), soon()));
    }
    // Garbage of the length of the question.
    Task<Result<Bytes>> answer(Bytes request) {
        ++asked;
        std::fill(request.begin(), request.end(), std::uint8_t{0xff});
        co_return request;
    }
    Task<void> store(std::size_t index) {
        DhtItem item;
        item.key = key(index);
        item.value = wire::encode_msgpack(index);
        item.expiration = machines[0]->clock().wall_now() + 3600;
        EXPECT_TRUE(co_await nodes[index % honest_count]->store(std::move(item), soon()));
    }
    Task<void> get(std::size_t index, std::size_t& good) {
        const std::size_t at = (7 * index + 3) % honest_count;
        const auto found = co_await nodes[at]->get(key(index), Freshness::latest, soon());
        if (found && *found && (**found).regular &&
            (**found).regular->value == wire::encode_msgpack(index))
            ++good;
    }
    // Tells everybody that its id is the key itself, once a key.
    Task<void> claim_places() {
        for (std::size_t index = 0; index < hostile_keys; ++index) {
            wire::FindRequest request;
            request.keys.push_back(to_bytes(key(index).view()));
            request.peer.emplace();
            request.peer->node_id = to_bytes(key(index).view());
            for (sim::SimNode* machine : machines) {
                const TimePoint deadline = soon();
                (void)co_await enemy->host().call(
                    machine->id(), find_method, wire::encode(request), deadline);
            }
        }
    }
    // Plain records, and records under somebody's subkey that it cannot sign.
    Task<void> flood(PeerId victim) {
        const WallSeconds later = machines[0]->clock().wall_now() + 86400;
        for (std::size_t i = 0; i < hostile_records; i += 100) {
            wire::StoreRequest request;
            for (std::size_t j = i; j < i + 100; ++j) {
                const DhtId where = DhtId::of_text("flood " + std::to_string(j));
                request.keys.push_back(to_bytes(where.view()));
                request.subkeys.push_back(j % 2 ? subkey_of(machines[1]->id())
                                                : wire::encode_msgpack(wire::MsgpackValue()));
                request.values.push_back(wire::encode_msgpack(Bytes(1000)));
                request.expiration_times.push_back(later);
                request.in_cache.push_back(false);
            }
            const TimePoint deadline = soon();
            (void)co_await enemy->host().call(
                victim, store_method, wire::encode(request), deadline);
        }
    }
    std::size_t gets_that_succeed() {
        std::size_t good = 0;
        for (std::size_t index = 0; index < hostile_keys; ++index) world.run_task(get(index, good));
        return good;
    }

    sim::World world{5};
    security::ToyVerifier verifier;
    std::vector<sim::SimNode*> machines;
    std::vector<std::unique_ptr<DhtNode>> nodes;
    sim::SimNode* enemy = nullptr;
    std::size_t asked = 0;
};

TEST(HostileNode, who_claims_the_place_of_every_key_and_answers_garbage_hides_none) {
    Besieged table;
    for (std::size_t index = 0; index < hostile_keys; ++index)
        table.world.run_task(table.store(index));
    table.world.run_task(table.claim_places());
    EXPECT_GE(table.gets_that_succeed(), hostile_keys * 99 / 100);
    EXPECT_GT(table.asked, 0u) << "nobody believed it, so nothing was tested";
}

TEST(HostileNode, a_flood_costs_its_sender_its_quota_and_nobody_a_record) {
    Besieged table;
    for (std::size_t index = 0; index < hostile_keys; ++index)
        table.world.run_task(table.store(index));
    const std::size_t before = table.nodes[4]->records();
    table.world.run_task(table.flood(table.machines[4]->id()));
    EXPECT_LE(table.nodes[4]->records(), before + 500);
    EXPECT_GT(table.nodes[4]->records(), before);
    EXPECT_EQ(table.nodes[4]->forged(), hostile_records / 2);
    EXPECT_GE(table.gets_that_succeed(), hostile_keys * 99 / 100);
}

}  // namespace
}  // namespace dedloc::dht
