// Time of one plan, for peers of all kinds.

#include <benchmark/benchmark.h>

#include "dedloc/base/random.h"
#include "dedloc/planner/split.h"

namespace dedloc::planner {
namespace {

void split_random_peers(benchmark::State& state) {
    Random random(1);
    std::vector<PeerRates> peers(static_cast<std::size_t>(state.range(0)));
    for (PeerRates& peer : peers) {
        peer = {.upload_per_s = random.uniform(1e5, 1e8),
                .download_per_s = random.uniform(1e6, 1e8),
                .contributes = random.chance(0.9),
                .receives = random.chance(0.95),
                .owns_allowed = random.chance(0.7)};
    }
    const SplitOptions options{.part_elements_min = static_cast<std::uint64_t>(state.range(1))};
    for (auto turn : state) {
        benchmark::DoNotOptimize(split_elements(peers, 25'557'032, options).has_value());
    }
}
BENCHMARK(split_random_peers)
    ->Args({4, 0})
    ->Args({16, 0})
    ->Args({256, 0})
    ->Args({256, 65536})
    ->Args({100'000, 0})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dedloc::planner
