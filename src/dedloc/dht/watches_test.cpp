#include "dedloc/dht/watches.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {
namespace {

class WatchesTest : public ::testing::Test {
  protected:
    ~WatchesTest() override {
        for (auto& node : nodes) world.run_task(node->stop());
    }
    void grow(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            machines.push_back(&world.add_node());
            nodes.push_back(std::make_unique<DhtNode>(machines.back()->host(), verifier));
            nodes.back()->start();
            if (i > 0) world.run_task(join(i));
        }
    }
    Task<void> join(std::size_t at) {
        std::vector<PeerId> first{machines[0]->id()};
        (void)co_await nodes[at]->bootstrap(std::move(first), soon());
    }
    // Under peer `from`'s own subkey.
    void put(std::size_t from, const std::string& text, double ttl = 600) {
        world.run_task(put_signed(from, text, machines[0]->clock().wall_now() + ttl));
    }
    Task<void> put_signed(std::size_t from, std::string text, WallSeconds expiration) {
        const auto stored = co_await nodes[from]->store_signed(
            machines[from]->signer(), key, to_bytes(text), expiration, soon());
        EXPECT_TRUE(stored) << to_string(stored.error());
    }
    TimePoint soon() { return world.now() + 60s; }

    std::unique_ptr<DhtNode::Watching> watch(std::size_t at) {
        return nodes[at]->watch(key, [this](const Stored& stored) {
            ++told;
            seen.clear();
            for (const SignedEntry& entry : signed_entries(stored))
                seen[entry.signer] = std::string(as_text(entry.payload));
        });
    }

    sim::World world{3};
    security::ToyVerifier verifier;
    std::vector<sim::SimNode*> machines;
    std::vector<std::unique_ptr<DhtNode>> nodes;
    DhtId key = DhtId::of_text("progress");
    std::map<PeerId, std::string> seen;
    int told = 0;
};

TEST_F(WatchesTest, hears_what_is_there_and_every_change_without_asking) {
    grow(24);
    put(1, "step 1");
    const auto watching = watch(9);
    world.run_for(3s);
    EXPECT_EQ(seen[machines[1]->id()], "step 1");
    std::size_t finds = 0;
    world.on_message([&](std::size_t from, std::size_t, const std::string& method) {
        if (from == machines[9]->index() && method == find_method) ++finds;
    });
    put(1, "step 2", 700);
    put(2, "step 7");
    world.run_for(1s);
    EXPECT_EQ(seen[machines[1]->id()], "step 2");
    EXPECT_EQ(seen[machines[2]->id()], "step 7");
    EXPECT_EQ(finds, 0u) << "it was pushed";
    const int before = told;
    world.run_for(20s);
    EXPECT_EQ(told, before) << "nothing has changed";
}

TEST_F(WatchesTest, a_key_that_is_not_there_yet_is_told_when_it_comes) {
    grow(12);
    const auto watching = watch(4);
    world.run_for(3s);
    EXPECT_EQ(told, 0);
    put(3, "here");
    world.run_for(1s);
    EXPECT_EQ(seen[machines[3]->id()], "here");
}

TEST_F(WatchesTest, goes_on_when_the_nodes_that_hold_the_key_die) {
    grow(24);
    put(1, "old");
    const auto watching = watch(9);
    world.run_for(3s);
    for (int lost = 0; lost < 3; ++lost) {
        // The holder that is nearest and neither watches nor writes.
        std::optional<std::size_t> nearest;
        for (std::size_t i = 0; i < nodes.size(); ++i)
            if (i != 9 && i != 1 && machines[i]->alive() &&
                (!nearest || nearer(key, nodes[i]->id(), nodes[*nearest]->id())))
                nearest = i;
        machines[*nearest]->kill();
    }
    world.run_for(60s);
    put(1, "new", 900);
    world.run_for(2s);
    EXPECT_EQ(seen[machines[1]->id()], "new");
}

TEST_F(WatchesTest, one_that_ends_is_told_nothing_more_and_takes_no_place) {
    grow(8);
    auto watching = watch(5);
    world.run_for(3s);
    watching.reset();
    world.run_for(1s);
    put(1, "unheard");
    world.run_for(3s);
    EXPECT_EQ(told, 0);
}

TEST_F(WatchesTest, a_peer_that_watches_too_much_is_refused) {
    grow(2);
    std::vector<std::unique_ptr<DhtNode::Watching>> many;
    int heard = 0;
    for (std::size_t i = 0; i < watchers_per_key_max + 6; ++i)
        many.push_back(nodes[1]->watch(key, [&heard](const Stored&) { ++heard; }));
    world.run_for(5s);
    put(0, "x");
    world.run_for(1s);
    // Half of them at node 1 itself; whoever was refused there heard of it from node 0, or will by
    // asking again.
    EXPECT_GT(heard, 0);
    world.run_for(2 * rewatch_period);
    EXPECT_EQ(heard, static_cast<int>(many.size()));
}

}  // namespace
}  // namespace dedloc::dht
