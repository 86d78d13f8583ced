// Measures the processor time of a delivered message and of a spawned task.

#include <benchmark/benchmark.h>

#include "dedloc/sim/world.h"

namespace dedloc::sim {
namespace {

Task<void> call_forever(SimNode& self, World& world) {
    Random random = self.runtime().random;
    for (;;) {
        const std::size_t other = random.below(world.nodes_count());
        if (other == self.index()) continue;
        const TimePoint deadline = self.clock().now() + 5s;
        PeerId peer = world.node(other).id();
        auto answer = co_await self.host().call(peer, "/bench/ping/1", Bytes(100), deadline);
        benchmark::DoNotOptimize(answer);
    }
}

// Small calls between all; messages (requests and answers) a second of processor time.
void delivered_messages(benchmark::State& state) {
    World world(1);
    const auto nodes = static_cast<std::size_t>(state.range(0));
    for (std::size_t i = 0; i < nodes; ++i)
        world.add_node().host().handle_call(
            "/bench/ping/1",
            [](PeerId, Bytes request) -> Task<Result<Bytes>> { co_return std::move(request); });
    for (std::size_t i = 0; i < nodes; ++i)
        world.scope().spawn("caller", call_forever(world.node(i), world));
    world.run_for(5s);  // connections are open
    const std::uint64_t before = world.stats().messages_delivered;
    for (auto _ : state) world.run_for(1s);
    state.SetItemsProcessed(static_cast<std::int64_t>(world.stats().messages_delivered - before));
}
BENCHMARK(delivered_messages)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

Task<void> nothing() { co_return; }

void spawned_tasks(benchmark::State& state) {
    World world(1);
    for (auto _ : state) {
        for (int i = 0; i < 100; ++i) world.scope().spawn("nothing", nothing());
        world.run_for(1ns);
    }
    state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(spawned_tasks);

}  // namespace
}  // namespace dedloc::sim
