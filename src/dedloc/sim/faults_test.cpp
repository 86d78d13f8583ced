// Scripts of faults, and a small protocol that lives through them.

#include "dedloc/sim/faults.h"

#include <gtest/gtest.h>

namespace dedloc::sim {
namespace {

TEST(FaultScript, repeats_from_its_seed_and_switches_kinds_off) {
    const FaultOptions options;
    EXPECT_EQ(make_faults(5, 7, options).text(), make_faults(5, 7, options).text());
    EXPECT_NE(make_faults(5, 7, options).text(), make_faults(6, 7, options).text());
    std::set<FaultKind> seen;
    std::size_t seeds_with_all = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        std::set<FaultKind> kinds;
        for (const Fault& fault : make_faults(seed, 7, options).faults) kinds.insert(fault.kind);
        seen.insert(kinds.begin(), kinds.end());
        if (kinds.size() == fault_kinds_count) ++seeds_with_all;
        EXPECT_FALSE(kinds.empty()) << "seed " << seed;
    }
    EXPECT_EQ(seen.size(), fault_kinds_count);
    EXPECT_LT(seeds_with_all, 5u);
}

TEST(FaultScript, keeps_its_limits) {
    FaultOptions options;
    options.faults_per_s = 3;
    options.never = {FaultKind::latency};
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const FaultScript script = make_faults(seed, 5, options);
        for (const Fault& fault : script.faults) {
            EXPECT_NE(fault.kind, FaultKind::latency);
            EXPECT_GE(fault.at, options.begin);
            EXPECT_LE(fault.at + fault.length, options.quiet_after) << "seed " << seed;
            std::size_t dead = 0;
            for (const Fault& other : script.faults) {
                const bool deadly = other.kind == FaultKind::kill ||
                                    other.kind == FaultKind::lose_machine ||
                                    other.kind == FaultKind::crash_write;
                if (deadly && other.at <= fault.at && fault.at < other.at + other.length) ++dead;
            }
            EXPECT_LE(dead, 2u) << "seed " << seed;
        }
        if (script.faults.size() > 1) {
            EXPECT_EQ(script.without(0).faults.size(), script.faults.size() - 1);
            EXPECT_EQ(script.without(0).faults[0].text(), script.faults[1].text());
        }
    }
}

// Each node counts on its disk and asks a neighbour now and then.
class Counter {
  public:
    explicit Counter(SimNode& node) : node_(node), scope_(node.host().executor()) {
        node.host().handle_call("hello", [](PeerId, Bytes request) -> Task<Result<Bytes>> {
            co_return std::move(request);
        });
    }
    void start(World& world, int& answers) { scope_.spawn("count", count(world, answers)); }
    Task<void> stop() { return scope_.stop(); }

  private:
    Task<void> count(World& world, int& answers) {
        for (;;) {
            co_await node_.clock().sleep_for(100ms);
            (void)node_.disk().append_durably("log", as_bytes("x"));  // may be full
            PeerId peer = world.node((node_.index() + 1) % world.nodes_count()).id();
            const TimePoint deadline = node_.clock().now() + 1s;
            auto answer = co_await node_.host().call(peer, "hello", Bytes(10), deadline);
            if (answer) ++answers;
        }
    }

    SimNode& node_;
    runtime::Scope scope_;
};

struct Outcome {
    std::uint64_t trace = 0;
    std::uint64_t faults = 0;
    std::uint64_t restarts = 0;
    int answers_after = 0;
};

Task<void> stop_counter(std::vector<std::unique_ptr<Counter>>& counters, std::size_t index) {
    co_await counters[index]->stop();
    counters[index].reset();
}

Outcome live_through(std::uint64_t seed) {
    constexpr std::size_t nodes = 6;
    World world(seed);
    for (std::size_t i = 0; i < nodes; ++i) world.add_node();
    std::vector<std::unique_ptr<Counter>> counters(nodes);
    int answers = 0;
    auto start = [&](SimNode& node) {
        counters[node.index()] = std::make_unique<Counter>(node);
        counters[node.index()]->start(world, answers);
    };
    for (std::size_t i = 0; i < nodes; ++i) start(world.node(i));
    FaultHooks hooks;
    hooks.teardown = [&counters](SimNode& node) { return stop_counter(counters, node.index()); };
    hooks.restarted = [&start](SimNode& node, bool) { start(node); };
    FaultOptions options;
    options.faults_per_s = 2;
    const auto played = play_faults(world, make_faults(seed, nodes, options), hooks);
    world.run_for(options.quiet_after + 1s);
    Outcome result;
    for (std::size_t i = 0; i < nodes; ++i)
        EXPECT_TRUE(world.node(i).alive() && !world.node(i).frozen()) << "seed " << seed;
    world.run_for(15s);
    answers = 0;
    world.run_for(10s);
    result.answers_after = answers;
    result.trace = world.trace_hash();
    result.faults = played->total();
    result.restarts = played->restarts;
    for (auto& counter : counters) world.run_task(counter->stop());
    return result;
}

TEST(Faults, a_protocol_lives_through_them_and_the_trace_repeats) {
    std::uint64_t restarts = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Outcome first = live_through(seed);
        EXPECT_GT(first.faults, 0u) << "seed " << seed;
        // Six nodes, a call every 140 ms, ten seconds without faults.
        EXPECT_GT(first.answers_after, 400) << "seed " << seed;
        restarts += first.restarts;
        if (seed <= 3) {
            EXPECT_EQ(live_through(seed).trace, first.trace) << "seed " << seed;
        }
    }
    EXPECT_GT(restarts, 20u);
}

}  // namespace
}  // namespace dedloc::sim
