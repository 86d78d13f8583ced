// A swarm of simulated machines with a table, expert servers and trainers, for tests.

#pragma once
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/experts/directory.h"
#include "dedloc/experts/ffn_expert.h"
#include "dedloc/experts/mixture.h"
#include "dedloc/experts/remote_experts.h"
#include "dedloc/experts/server.h"
#include "dedloc/sim/world.h"

namespace dedloc::experts::testing {

// One machine: a node of the table, a server, a client.
struct Machine {
    explicit Machine(sim::SimNode& given, const security::Verifier& verifier, ServerLimits limits)
        : node(given),
          table(given.host(), verifier),
          server(given.host(), given.runtime().workers, limits),
          directory(table, given.host().executor(), given.clock()),
          remote(given.host(), Random(given.index() + 1)) {
        table.start();
        server.start();
    }
    static Task<void> stop(Machine& machine) {
        co_await machine.server.stop();
        co_await machine.table.stop();
    }
    TimePoint soon() { return node.clock().now() + std::chrono::seconds(30); }

    sim::SimNode& node;
    dht::DhtNode table;
    ExpertServer server;
    Directory directory;
    RemoteExperts remote;
};

class Swarm {
  public:
    explicit Swarm(std::size_t machines_count,
                   sim::WorldOptions options = {},
                   ServerLimits limits = {},
                   std::uint64_t seed = 1)
        : world(seed, options) {
        for (std::size_t i = 0; i < machines_count; ++i) {
            sim::SimNode& node = world.add_node();
            machines.push_back(std::make_unique<Machine>(node, verifier, limits));
            if (i == 0) continue;
            world.run_task(join(*this, i));
        }
    }
    ~Swarm() {
        for (auto& machine : machines) world.run_task(Machine::stop(*machine));
    }
    static Task<void> join(Swarm& swarm, std::size_t index) {
        std::vector<PeerId> first{swarm.machines[0]->node.id()};
        const auto joined = co_await swarm.machines[index]->table.bootstrap(
            std::move(first), swarm.machines[index]->soon());
        EXPECT_TRUE(joined);
    }
    // Expert i of the grid at machine i modulo `servers`, all declared.
    void serve(const ExpertGrid& grid, const FfnOptions& options, std::size_t servers) {
        std::vector<std::vector<ExpertUid>> at(servers);
        std::size_t next = 0;
        for (const ExpertUid& uid : grid.all()) {
            machines[next]->server.batcher().add(uid.text(),
                                                 std::make_shared<FfnExpert>(uid, options));
            at[next].push_back(uid);
            next = (next + 1) % servers;
        }
        for (std::size_t i = 0; i < servers; ++i) world.run_task(declare(*machines[i], at[i]));
    }
    static Task<void> declare(Machine& machine, std::vector<ExpertUid> uids) {
        const WallSeconds expiration = machine.node.clock().wall_now() + 3600;
        const auto declared = co_await machine.directory.declare(
            std::move(uids), machine.node.id(), expiration, machine.soon());
        for (const bool good : declared) EXPECT_TRUE(good);
    }

    sim::World world;
    security::ToyVerifier verifier;
    std::vector<std::unique_ptr<Machine>> machines;
};

inline Tensor random_tensor(Random& random, std::size_t rows, std::size_t width) {
    const std::vector<std::int64_t> sample{static_cast<std::int64_t>(width)};
    Tensor tensor = zeros(rows, sample);
    for (float& value : tensor.values) value = static_cast<float>(random.normal());
    return tensor;
}

inline GridScores random_scores(Random& random, const ExpertGrid& grid) {
    GridScores scores;
    for (const std::uint32_t size : grid.sizes) {
        auto& axis = scores.emplace_back();
        for (std::uint32_t i = 0; i < size; ++i)
            axis.push_back(static_cast<float>(random.normal()));
    }
    return scores;
}

inline FfnOptions small_expert() {
    FfnOptions options;
    options.width = 8;
    options.hidden = 16;
    options.optimizer.kind = optim::OptimizerKind::sgd;
    options.optimizer.momentum = 0;
    options.optimizer.schedule.peak = 0.1;
    return options;
}

}  // namespace dedloc::experts::testing
