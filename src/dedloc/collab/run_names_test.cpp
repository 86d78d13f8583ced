#include "dedloc/collab/run_names.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"
#include "dedloc/sim/world.h"

namespace dedloc::collab {
namespace {

struct NamingSwarm {
    NamingSwarm() {
        for (int i = 0; i < 4; ++i) {
            machines.push_back(&world.add_node());
            tables.push_back(std::make_unique<dht::DhtNode>(machines[i]->host(), verifier));
            tables.back()->start();
            if (i > 0) world.run_task(join(*this, i));
        }
    }
    ~NamingSwarm() {
        for (auto& table : tables) world.run_task(table->stop());
    }
    static Task<void> join(NamingSwarm& swarm, int index) {
        std::vector<PeerId> first{swarm.machines[0]->id()};
        const TimePoint deadline = swarm.world.now() + 30s;
        (void)co_await swarm.tables[index]->bootstrap(std::move(first), deadline);
    }
    static Task<void> name(NamingSwarm& swarm, int index, Bytes payload, bool& stored) {
        sim::SimNode& machine = *swarm.machines[index];
        const WallSeconds expiration = machine.clock().wall_now() + named_for_s;
        const TimePoint deadline = swarm.world.now() + 30s;
        const auto done = co_await swarm.tables[index]->store_signed(
            machine.signer(), key_of_run_name("demo"), std::move(payload), expiration, deadline);
        stored = done.has_value();
    }
    static Task<void> find(NamingSwarm& swarm, std::string name, std::vector<FoundRun>& out) {
        const TimePoint deadline = swarm.world.now() + 30s;
        auto found = co_await find_runs(*swarm.tables[3], std::move(name), deadline);
        if (found) out = *std::move(found);
    }

    sim::World world{1};
    security::ToyVerifier verifier;
    std::vector<sim::SimNode*> machines;
    std::vector<std::unique_ptr<dht::DhtNode>> tables;
};

NamedRun run_of(std::uint64_t peers) {
    NamedRun run;
    run.peers = peers;
    run.step = 12;
    run.task = "albert";
    return run;
}

TEST(RunNames, are_found_with_all_their_organisers_and_the_larger_run_first) {
    NamingSwarm swarm;
    bool stored = false;
    swarm.world.run_task(NamingSwarm::name(swarm, 1, wire::encode(run_of(3)), stored));
    ASSERT_TRUE(stored);
    swarm.world.run_task(NamingSwarm::name(swarm, 2, wire::encode(run_of(7)), stored));
    ASSERT_TRUE(stored);
    std::vector<FoundRun> found;
    swarm.world.run_task(NamingSwarm::find(swarm, "demo", found));
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].organiser, swarm.machines[2]->id());
    EXPECT_EQ(found[0].run.peers, 7u);
    EXPECT_EQ(found[1].organiser, swarm.machines[1]->id());
    EXPECT_EQ(found[1].run.step, 12u);
    found.clear();
    swarm.world.run_task(NamingSwarm::find(swarm, "another", found));
    EXPECT_TRUE(found.empty());
}

TEST(RunNames, records_that_say_nothing_sensible_are_not_shown) {
    NamingSwarm swarm;
    bool stored = false;
    swarm.world.run_task(NamingSwarm::name(swarm, 1, to_bytes("garbage"), stored));
    ASSERT_TRUE(stored);
    NamedRun elsewhere = run_of(9);
    elsewhere.addresses = {"/ip4/1.2.3.4/tcp/1"};  // of nobody
    swarm.world.run_task(NamingSwarm::name(swarm, 2, wire::encode(elsewhere), stored));
    ASSERT_TRUE(stored);
    std::vector<FoundRun> found;
    swarm.world.run_task(NamingSwarm::find(swarm, "demo", found));
    EXPECT_TRUE(found.empty());
    NamedRun loud = run_of(1);
    loud.task = "\x1b[2Jalbert";
    EXPECT_EQ(named_run_from(wire::encode(loud))->task.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace dedloc::collab
