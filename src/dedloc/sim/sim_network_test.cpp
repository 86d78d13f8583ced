// Bytes between simulated machines.

#include "dedloc/sim/sim_network.h"

#include <gtest/gtest.h>

#include "dedloc/runtime/deadline.h"

namespace dedloc::sim {
namespace {

struct Two {
    Two() : world(1), a(world.add_node()), b(world.add_node()) {}
    World world;
    SimNode& a;
    SimNode& b;
};

Task<void> echo(runtime::Network& network, std::uint16_t port) {
    runtime::SocketAddress any{"0.0.0.0", port};
    auto listener = network.listen(any);
    auto accepted = co_await (*listener)->accept();
    auto connection = *std::move(accepted);
    Bytes buffer(100000);
    for (;;) {
        auto count = co_await connection->read_some(buffer);
        if (!count || *count == 0) co_return;
        auto written = co_await connection->write(ByteView(buffer).first(*count));
        if (!written) co_return;
    }
}

Task<void> write_all(runtime::Connection& connection, const Bytes& bytes) {
    auto written = co_await connection.write(bytes);
    EXPECT_TRUE(written);
}

TEST(SimNetwork, bytes_come_back_in_order_at_the_links_rate) {
    Two t;
    t.world.scope().spawn("echo", echo(t.b.network(), 80));
    auto body = [](Two& two) -> Task<void> {
        runtime::SocketAddress there{two.b.ip(), 80};
        const TimePoint deadline = two.a.clock().now() + 5s;
        auto connected = co_await two.a.network().connect(there, deadline);
        EXPECT_TRUE(connected);
        EXPECT_EQ(two.world.now().since_start, 40ms);  // one round trip
        auto connection = *std::move(connected);
        EXPECT_EQ(connection->remote(), there);
        const Bytes sent = Random(3).bytes(10'000'000);
        runtime::Scope scope(two.world.executor());
        scope.spawn("write", write_all(*connection, sent));
        Bytes got;
        Bytes buffer(77777);
        while (got.size() < sent.size()) {
            auto count = co_await connection->read_some(buffer);
            if (!count || *count == 0) break;
            base::append(got, ByteView(buffer).first(*count));
        }
        EXPECT_EQ(got, sent);
        const double seconds = to_seconds(two.world.now().since_start);
        EXPECT_NEAR(seconds, 10e6 / 12.5e6 + 0.08, 0.05);
        connection.reset();
        co_await scope.stop();
    };
    t.world.run_task(body(t));
    t.world.run_for(1s);
    EXPECT_EQ(t.world.scope().running(), 0u);  // the echo has read the end
}

TEST(SimNetwork, refusals_deadlines_used_ports_and_cuts_are_told) {
    Two t;
    auto body = [](Two& two) -> Task<void> {
        runtime::SocketAddress there{two.b.ip(), 80};
        TimePoint deadline = two.a.clock().now() + 5s;
        auto refused = co_await two.a.network().connect(there, deadline);
        EXPECT_EQ(refused.error().kind(), ErrorKind::peer_gone);
        auto listener = two.b.network().listen(there);
        auto again = two.b.network().listen(there);
        EXPECT_EQ(again.error().kind(), ErrorKind::local_fault);
        two.world.partition({{"n0"}, {"n1"}});
        auto late = co_await two.a.network().connect(there, deadline);
        EXPECT_EQ(late.error().kind(), ErrorKind::timeout);
        two.world.heal();
        deadline = two.a.clock().now() + 5s;
        auto connected = co_await two.a.network().connect(there, deadline);
        EXPECT_TRUE(connected);
        auto accepted = co_await (*listener)->accept();
        EXPECT_TRUE(accepted);
        two.world.after(1s, [&two] { two.b.kill(); });
        Bytes buffer(10);
        auto cut = co_await (*connected)->read_some(buffer);
        EXPECT_EQ(cut.error().kind(), ErrorKind::peer_gone);
    };
    t.world.run_task(body(t));
}

TEST(SimNetwork, a_writer_waits_for_a_reader) {
    Two t;
    std::unique_ptr<runtime::Connection> kept;
    auto accept = [](runtime::Network& network,
                     std::unique_ptr<runtime::Connection>& out) -> Task<void> {
        runtime::SocketAddress any{"0.0.0.0", 80};
        auto listener = network.listen(any);
        auto accepted = co_await (*listener)->accept();
        out = *std::move(accepted);
    };
    t.world.scope().spawn("accept", accept(t.b.network(), kept));
    auto body = [](Two& two) -> Task<void> {
        runtime::SocketAddress there{two.b.ip(), 80};
        const TimePoint deadline = two.a.clock().now() + 5s;
        auto connected = co_await two.a.network().connect(there, deadline);
        const Bytes bytes(4 << 20);
        auto write = (*connected)->write(bytes);
        const TimePoint late = two.a.clock().now() + 30s;
        auto stuck =
            co_await runtime::with_deadline(two.a.clock(), late, "writing", std::move(write));
        EXPECT_EQ(stuck.error().kind(), ErrorKind::timeout);
    };
    t.world.run_task(body(t));
    ASSERT_TRUE(kept);
}

}  // namespace
}  // namespace dedloc::sim
