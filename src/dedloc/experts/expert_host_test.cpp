#include "dedloc/experts/expert_host.h"

#include <gtest/gtest.h>
#include <set>

#include "dedloc/experts/experts_testing.h"
#include "dedloc/experts/grid_view.h"

namespace dedloc::experts {
namespace {

using testing::random_tensor;
using testing::small_expert;

struct Server {
    Server(sim::SimNode& given, const security::Verifier& verifier, const HostOptions& options)
        : node(given),
          table(given.host(), verifier),
          host(
              given.runtime(),
              given.host(),
              table,
              given.signer(),
              given.runtime().workers,
              [](const ExpertUid& uid) -> Result<std::unique_ptr<ExpertBackend>> {
                  return std::unique_ptr<ExpertBackend>(
                      std::make_unique<FfnExpert>(uid, small_expert()));
              },
              options) {
        table.start();
    }
    static Task<void> start(Server& server, std::optional<PeerId> first) {
        if (first) {
            std::vector<PeerId> peers{*first};
            const TimePoint deadline = server.node.clock().now() + std::chrono::seconds(10);
            EXPECT_TRUE(co_await server.table.bootstrap(std::move(peers), deadline));
        }
        server.host.start();
    }
    static Task<void> stop(Server& server) {
        co_await server.host.stop();
        co_await server.table.stop();
    }
    static Task<void> leave(Server& server) {
        co_await server.host.leave(server.node.clock().now() + std::chrono::seconds(20));
    }
    sim::SimNode& node;
    dht::DhtNode table;
    ExpertHost host;
};

// Machine 0 is only a node of the table; the last one a client.
class Grid {
  public:
    explicit Grid(std::size_t servers_count,
                  HostOptions options = make_options(),
                  std::vector<Duration> skews = {})
        : world(3), grid(options.grid) {
        sim::SimNode& first = world.add_node();
        root = std::make_unique<dht::DhtNode>(first.host(), verifier);
        root->start();
        for (std::size_t i = 0; i < servers_count; ++i) {
            sim::NodeOptions machine;
            if (i < skews.size()) machine.wall_skew = skews[i];
            servers.push_back(std::make_unique<Server>(world.add_node(machine), verifier, options));
            world.run_task(Server::start(*servers.back(), first.id()));
        }
        client = std::make_unique<testing::Machine>(world.add_node(), verifier, ServerLimits{});
        world.run_task(join_client(*this, first.id()));
    }
    ~Grid() {
        for (auto& server : servers) world.run_task(Server::stop(*server));
        world.run_task(testing::Machine::stop(*client));
        world.run_task(root->stop());
    }
    static HostOptions make_options() {
        HostOptions options;
        options.grid = {.name = "ffn", .sizes = {4, 4}};
        options.experts_max = 8;
        return options;
    }
    static Task<void> join_client(Grid& grid, PeerId first) {
        std::vector<PeerId> peers{std::move(first)};
        EXPECT_TRUE(co_await grid.client->table.bootstrap(std::move(peers), grid.client->soon()));
    }
    static Task<void> look(Grid& grid, std::vector<Result<std::optional<PeerId>>>& named) {
        std::vector<ExpertUid> uids = grid.grid.all();
        named = co_await grid.client->directory.find(
            std::move(uids), dht::Freshness::latest, grid.client->soon());
    }
    // How many experts are declared by servers that live.
    std::size_t served() {
        std::vector<Result<std::optional<PeerId>>> named;
        world.run_task(look(*this, named));
        std::size_t count = 0;
        for (const auto& peer : named)
            for (const auto& server : servers)
                if (peer && *peer && server->node.id() == **peer && server->node.alive() &&
                    !server->node.frozen())
                    ++count;
        return count;
    }
    static Task<void> train(Grid& grid, ExpertUid uid, bool& good) {
        std::vector<ExpertUid> uids{uid};
        const auto named = co_await grid.client->directory.find(
            std::move(uids), dht::Freshness::latest, grid.client->soon());
        if (!named.front() || !*named.front()) co_return;
        Random random(1);
        const Location location{.uid = uid, .server = **named.front()};
        std::vector<Tensor> inputs{random_tensor(random, 2, 8)};
        std::vector<Tensor> outer{random_tensor(random, 2, 8)};
        const auto answer =
            co_await grid.client->remote.backward(location, std::move(inputs), std::move(outer));
        good = answer.has_value();
    }
    std::size_t train_all() {
        std::size_t good_count = 0;
        for (const ExpertUid& uid : grid.all()) {
            bool good = false;
            world.run_task(train(*this, uid, good));
            good_count += good ? 1 : 0;
        }
        return good_count;
    }
    // The server's process ends without leaving; another one begins in the same folder.
    void begin_again(std::size_t i, const HostOptions& options = make_options()) {
        sim::SimNode& node = servers[i]->node;
        servers[i].reset();
        servers[i] = std::make_unique<Server>(node, verifier, options);
        world.run_task(Server::start(*servers[i], world.node(0).id()));
    }
    std::uint64_t updates_of_all() const {
        std::uint64_t updates = 0;
        for (const auto& server : servers) {
            if (!server->node.alive() || server->node.frozen()) continue;
            for (const std::string& uid : server->host.server().batcher().uids())
                updates += server->host.server().batcher().find(uid)->updates();
        }
        return updates;
    }

    sim::World world;
    security::ToyVerifier verifier;
    ExpertGrid grid;
    std::unique_ptr<dht::DhtNode> root;
    std::vector<std::unique_ptr<Server>> servers;
    std::unique_ptr<testing::Machine> client;
};

TEST(ExpertHost, servers_share_a_new_grid_and_every_expert_answers) {
    Grid grid(4);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.served(), 16u);
    std::size_t hosted = 0;
    for (const auto& server : grid.servers) {
        hosted += server->host.hosted();
        EXPECT_GE(server->host.hosted(), 2u);
        EXPECT_LE(server->host.hosted(), 6u);
    }
    EXPECT_EQ(hosted, 16u);
    EXPECT_EQ(grid.train_all(), 16u);
}

// Servers' records expire by the time of the table, whatever their own clocks show.
TEST(ExpertHost, servers_whose_clocks_are_wrong_serve_and_are_found_as_others_are) {
    Grid grid(4, Grid::make_options(), {-20s, 20s, -3600s});
    grid.world.run_for(std::chrono::seconds(40));
    EXPECT_EQ(grid.served(), 16u);
    for (const auto& server : grid.servers) EXPECT_GE(server->host.hosted(), 2u);
    EXPECT_EQ(grid.train_all(), 16u);
    grid.world.run_for(std::chrono::seconds(30));
    grid.servers[0]->node.kill();
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.updates_of_all(), 16u);
    // A clock that is set while it serves changes nothing.
    grid.servers[1]->node.step_wall_clock(-40s);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.servers[1]->host.counts().given_up, 0u);
}

TEST(ExpertHost, experts_of_a_killed_server_answer_again_within_30_s_with_what_they_had_learnt) {
    Grid grid(4);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.train_all(), 16u);
    EXPECT_EQ(grid.train_all(), 16u);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.updates_of_all(), 32u);
    grid.servers[1]->node.kill();
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.updates_of_all(), 32u);
    EXPECT_EQ(grid.train_all(), 16u);
}

TEST(ExpertHost, a_stopped_server_that_comes_back_gives_its_experts_up) {
    Grid grid(4);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.train_all(), 16u);
    grid.world.run_for(std::chrono::seconds(25));
    const std::size_t had = grid.servers[2]->host.hosted();
    grid.servers[2]->node.freeze();
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.updates_of_all(), 16u);
    grid.servers[2]->node.thaw();
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.servers[2]->host.counts().given_up, had);
    std::size_t hosted = 0;
    for (const auto& server : grid.servers) hosted += server->host.hosted();
    EXPECT_EQ(hosted, 16u);
    EXPECT_EQ(grid.train_all(), 16u);
}

TEST(ExpertHost, who_leaves_hands_over_and_nothing_is_lost) {
    Grid grid(4);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.train_all(), 16u);
    const std::size_t had = grid.servers[0]->host.hosted();
    grid.world.run_task(Server::leave(*grid.servers[0]));
    EXPECT_EQ(grid.servers[0]->host.counts().handed_over, had);
    grid.world.run_for(std::chrono::seconds(5));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.updates_of_all(), 16u);
    for (const auto& server : grid.servers) EXPECT_EQ(server->host.counts().updates_lost, 0u);
}

// Everybody's evening ends, and they come back the next day one by one.
TEST(ExpertHost, servers_that_all_stopped_go_on_with_what_is_on_their_disks) {
    Grid grid(3);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.train_all(), 16u);
    EXPECT_EQ(grid.train_all(), 16u);
    grid.world.run_for(std::chrono::seconds(30));
    for (auto& server : grid.servers) grid.world.run_task(Server::stop(*server));
    grid.world.run_for(std::chrono::seconds(60));
    for (std::size_t i = 0; i < 3; ++i) {
        grid.begin_again(i);
        grid.world.run_for(std::chrono::seconds(20));
    }
    grid.world.run_for(std::chrono::seconds(60));
    EXPECT_EQ(grid.served(), 16u);
    EXPECT_EQ(grid.updates_of_all(), 32u);
}

TEST(ExpertHost, the_only_server_finds_its_own_experts_again) {
    HostOptions options = Grid::make_options();
    options.experts_max = 16;
    Grid grid(1, options);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.train_all(), 16u);
    grid.world.run_task(Server::leave(*grid.servers[0]));
    EXPECT_EQ(grid.servers[0]->host.counts().handed_over, 0u);
    grid.world.run_task(Server::stop(*grid.servers[0]));
    grid.world.run_for(std::chrono::seconds(60));
    grid.begin_again(0, options);
    grid.world.run_for(std::chrono::seconds(30));
    EXPECT_EQ(grid.servers[0]->host.counts().begun, 0u);
    EXPECT_EQ(grid.updates_of_all(), 16u);
}

TEST(ExpertHost, keeps_snapshots_only_of_who_serves_the_expert) {
    Grid grid(3);
    grid.world.run_for(std::chrono::seconds(30));
    KeepRequest request;
    request.uid = grid.grid.all().front().text();
    request.root.bytes[0] = 1;
    Result<Bytes> answer = Bytes();
    const auto ask = [](Grid& of, KeepRequest what, Result<Bytes>& out) -> Task<void> {
        // A server that neither serves nor leaves the expert.
        for (const auto& server : of.servers) {
            if (server->host.server().batcher().find(what.uid)) continue;
            out = co_await of.client->node.host().call(
                server->node.id(), keep_method, wire::encode(what), of.client->soon());
        }
    };
    grid.world.run_task(ask(grid, request, answer));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind(), ErrorKind::denied);
}

TEST(Placement, fills_servers_in_proportion_and_moves_little_when_one_goes) {
    const ExpertGrid grid{.name = "ffn", .sizes = {16, 16}};
    sim::World world(1);
    std::vector<ServerRoom> rooms;
    for (std::size_t i = 0; i < 4; ++i)
        rooms.push_back({.server = world.add_node().id(), .experts_max = i == 0 ? 200u : 100u});
    const auto first = assign(grid.all(), rooms, 256);
    EXPECT_EQ(first.size(), 256u);
    std::map<PeerId, std::size_t> counts;
    for (const auto& [uid, server] : first) ++counts[server];
    EXPECT_LE(counts[rooms[0].server], 103u);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_LE(counts[rooms[i].server], 52u);
    // Nobody takes more than fits.
    for (ServerRoom& room : rooms) room.experts_max = 10;
    EXPECT_EQ(assign(grid.all(), rooms, 256).size(), 40u);
    EXPECT_EQ(assign(grid.all(), {}, 256).size(), 0u);
    // The rank of one server does not depend on the others.
    std::vector<PeerId> ids;
    for (const ServerRoom& room : rooms) ids.push_back(room.server);
    const auto all = ranked("ffn.1.1", ids);
    std::vector<PeerId> fewer(all.begin() + 1, all.end());
    EXPECT_EQ(ranked("ffn.1.1", fewer), fewer);
}

Task<void> look_at(Grid& grid, GridSeen& seen) {
    testing::Machine& client = *grid.client;
    const TimePoint deadline = client.node.clock().now() + std::chrono::seconds(10);
    seen = co_await survey_grid(
        client.node.host(), client.table, client.directory, grid.grid, deadline);
}

TEST(GridView, tells_who_serves_what_and_who_does_not_answer) {
    Grid grid(3);
    grid.world.run_for(std::chrono::seconds(30));
    ASSERT_EQ(grid.train_all(), 16u);
    grid.world.run_for(std::chrono::seconds(5));
    GridSeen seen;
    grid.world.run_task(look_at(grid, seen));
    EXPECT_EQ(seen.servers.size(), 3u);
    EXPECT_EQ(seen.served(), 16u);
    for (const ExpertSeen& expert : seen.experts) EXPECT_EQ(expert.updates, 1u);
    const std::size_t lost = grid.servers[1]->host.hosted();
    ASSERT_GT(lost, 0u);
    grid.servers[1]->node.freeze();
    grid.world.run_task(look_at(grid, seen));
    EXPECT_EQ(seen.served(), 16u - lost);
    grid.servers[1]->node.thaw();
}

}  // namespace
}  // namespace dedloc::experts
