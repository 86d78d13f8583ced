// Virtual time, clocks, disks, the trace, and a world of a hundred.

#include "dedloc/sim/world.h"

#include <gtest/gtest.h>

#include "dedloc/runtime/deadline.h"

namespace dedloc::sim {
namespace {

TEST(EventQueue, keeps_the_order_of_time_and_of_making_whatever_is_cancelled) {
    EventQueue queue;
    Random random(5);
    std::vector<int> order;
    std::vector<EventId> ids;
    for (int i = 0; i < 1000; ++i) {
        const TimePoint time{Duration(random.between(0, 50))};
        ids.push_back(queue.push(time, nullptr, [&order, i] { order.push_back(i); }));
    }
    std::set<int> cancelled;
    for (int i = 0; i < 300; ++i) {
        const auto which = static_cast<std::size_t>(random.below(ids.size()));
        queue.cancel(ids[which]);
        cancelled.insert(static_cast<int>(which));
    }
    TimePoint last{Duration(0)};
    int previous = -1;
    while (!queue.empty()) {
        const TimePoint time = queue.next_time();
        EXPECT_GE(time, last);
        if (time > last) previous = -1;
        last = time;
        queue.take(queue.pop().id)();
        EXPECT_GT(order.back(), previous);
        EXPECT_FALSE(cancelled.contains(order.back()));
        previous = order.back();
    }
    EXPECT_EQ(order.size() + cancelled.size(), 1000u);
}

TEST(World, sleeping_takes_virtual_time_only) {
    World world(1);
    SimNode& node = world.add_node();
    auto body = [](runtime::Clock& clock) -> Task<void> { co_await clock.sleep_for(24h); };
    world.run_task(body(node.clock()), 48h);
    EXPECT_EQ(world.now().since_start, 24h);
    EXPECT_FALSE(world.run_until([] { return false; }, 1h));
    EXPECT_EQ(world.now().since_start, 25h);
}

TEST(World, clocks_have_their_own_offset_and_drift) {
    World world(1);
    NodeOptions fast;
    fast.clock_offset = 100s;
    fast.clock_drift = 1e-3;
    fast.wall_skew = 60s;
    SimNode& a = world.add_node(fast);
    SimNode& b = world.add_node();
    world.run_for(1000s);
    EXPECT_EQ(a.clock().now().since_start, 1101s);
    EXPECT_EQ(b.clock().now().since_start, 1000s);
    EXPECT_NEAR(a.clock().wall_now() - b.clock().wall_now(), 61.0, 1e-6);
    // A sleep of 1001 s of the fast clock is 1000 s of the world's, and never ends early.
    TimePoint before;
    TimePoint after;
    auto body = [](runtime::Clock& clock, TimePoint& start, TimePoint& end) -> Task<void> {
        start = clock.now();
        co_await clock.sleep_for(1001s);
        end = clock.now();
    };
    world.run_task(body(a.clock(), before, after));
    EXPECT_GE(after - before, 1001s);
    EXPECT_LT(after - before, 1001s + 10ns);
    EXPECT_NEAR(to_seconds(world.now().since_start), 2000, 1e-6);
    a.set_clock_drift(-1e-3);
    const TimePoint then = a.clock().now();
    world.run_for(1000s);
    EXPECT_EQ(a.clock().now() - then, 999s);
}

TEST(World, workers_run_in_the_stated_time) {
    WorldOptions options;
    options.worker_cost = 3ms;
    World world(1, options);
    SimNode& node = world.add_node();
    auto body = [](runtime::Node at) -> Task<void> {
        auto work = [] { return 42; };
        const int result = co_await at.workers.run(work);
        EXPECT_EQ(result, 42);
    };
    world.run_task(body(node.runtime()));
    EXPECT_EQ(world.now().since_start, 3ms);
}

p2p::CallHandler pong() {
    return [](PeerId, Bytes request) -> Task<Result<Bytes>> { co_return std::move(request); };
}

Task<void> ping_all(World& world, SimNode& self, Duration every, Duration until, int& answers) {
    Random random = self.runtime().random;
    const TimePoint end = self.clock().now() + until;
    while (self.clock().now() < end) {
        const Duration pause = random.duration(every / 2, every + every / 2);
        co_await self.clock().sleep_for(pause);
        const std::size_t other = random.below(world.nodes_count());
        if (other == self.index()) continue;
        const TimePoint deadline = self.clock().now() + 5s;
        PeerId peer = world.node(other).id();
        auto answer = co_await self.host().call(peer, "ping", Bytes(100), deadline);
        if (answer) ++answers;
    }
}

struct Swarm {
    std::uint64_t trace;
    int answers = 0;
    std::uint64_t messages = 0;
};

Swarm run_swarm(std::uint64_t seed, std::size_t nodes, Duration every, Duration until) {
    World world(seed);
    LinkOptions link;
    link.jitter = 3ms;
    link.loss = 0.01;
    world.set_default_link(link);
    Swarm swarm;
    for (std::size_t i = 0; i < nodes; ++i) world.add_node().host().handle_call("ping", pong());
    for (std::size_t i = 0; i < nodes; ++i)
        world.scope().spawn("ping", ping_all(world, world.node(i), every, until, swarm.answers));
    world.run_for(until + 10s);
    swarm.trace = world.trace_hash();
    swarm.messages = world.stats().messages_delivered;
    return swarm;
}

TEST(World, the_same_seed_gives_the_same_trace_and_another_seed_another) {
    const Swarm first = run_swarm(42, 10, 100ms, 20s);
    const Swarm second = run_swarm(42, 10, 100ms, 20s);
    const Swarm other = run_swarm(43, 10, 100ms, 20s);
    EXPECT_GT(first.answers, 1000);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_NE(first.trace, other.trace);
    // The value itself is part of the promise: g++ and clang must agree on it.
    EXPECT_EQ(first.trace, 9045494497784269999u) << "with seed 42";
}

TEST(World, a_hundred_nodes_ping_for_ten_minutes_quickly) {
    const Swarm swarm = run_swarm(7, 100, 2s, 600s);
    EXPECT_GT(swarm.answers, 25000);
}

TEST(World, destroying_it_with_everything_running_is_safe) {
    int answers = 0;
    World world(1);
    for (int i = 0; i < 5; ++i) world.add_node().host().handle_call("ping", pong());
    for (std::size_t i = 0; i < 5; ++i)
        world.scope().spawn("ping", ping_all(world, world.node(i), 10ms, 100s, answers));
    world.run_for(5s);
    world.node(0).kill();
    world.node(1).freeze();
    world.partition({{"n2"}, {"n3"}});
    world.run_for(1s);
}

// --- disk ---

TEST(SimDisk, survives_a_kill_and_forgets_when_lost) {
    World world(1);
    SimNode& node = world.add_node();
    EXPECT_TRUE(node.disk().append_durably("log", as_bytes("one")));
    EXPECT_TRUE(node.disk().write_atomically("a/b", as_bytes("two")));
    SimDisk& old = node.disk();
    node.kill();
    EXPECT_EQ(old.append_durably("log", as_bytes("x")).error().kind(), ErrorKind::local_fault);
    world.run_task(node.host().stop());
    node.restart();
    EXPECT_EQ(as_text(*node.disk().read("log")), "one");
    EXPECT_EQ(*node.disk().list(""), (std::vector<std::string>{"a", "log"}));
    EXPECT_EQ(*node.disk().list("a"), (std::vector<std::string>{"b"}));
    EXPECT_FALSE(old.read("log"));
    node.kill();
    world.run_task(node.host().stop());
    node.restart(true);
    EXPECT_EQ(node.disk().read("log").error().kind(), ErrorKind::not_found);
}

TEST(SimDisk, a_crash_in_a_write_tears_it_and_kills_the_process) {
    bool torn = false;
    bool kept = false;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        World world(seed);
        SimNode& node = world.add_node();
        int deaths = 0;
        node.on_death([&deaths](SimNode&) { ++deaths; });
        EXPECT_TRUE(node.disk().append_durably("log", as_bytes("one")));
        node.disk().crash_at_next_write();
        EXPECT_FALSE(node.disk().append_durably("log", as_bytes("two")));
        EXPECT_EQ(deaths, 1);
        EXPECT_FALSE(node.alive());
        world.run_task(node.host().stop());
        node.restart();
        const std::string left(as_text(*node.disk().read("log")));
        EXPECT_EQ(left, std::string("onetwo").substr(0, left.size()));
        EXPECT_GE(left.size(), 3u);
        torn |= left.size() > 3 && left.size() < 6;
        kept |= left.size() == 6;
    }
    EXPECT_TRUE(torn && kept);
}

TEST(SimDisk, a_full_disk_refuses_and_keeps_what_it_has) {
    World world(1);
    SimNode& node = world.add_node();
    EXPECT_TRUE(node.disk().append_durably("log", as_bytes("one")));
    node.disk().set_full(true);
    auto full = node.disk().append_durably("log", as_bytes("two"));
    EXPECT_EQ(full.error().kind(), ErrorKind::local_fault);
    EXPECT_NE(full.error().message().find("no space left"), std::string::npos);
    EXPECT_FALSE(node.disk().write_atomically("x", as_bytes("y")));
    EXPECT_EQ(as_text(*node.disk().read("log")), "one");
    node.disk().set_full(false);
    EXPECT_TRUE(node.disk().append_durably("log", as_bytes("two")));
    for (const char* path : {"", "..", "a//b", "/a"})
        EXPECT_EQ(node.disk().write_atomically(path, as_bytes("x")).error().kind(),
                  ErrorKind::bad_input);
}

}  // namespace
}  // namespace dedloc::sim
