// How fast a state is hashed: one pass of SHA-256 and one copy. Non-goal: disk, network.

#include <benchmark/benchmark.h>

#include "dedloc/state/manifest.h"

namespace dedloc::state {
namespace {

void BM_MakeManifest(benchmark::State& bench) {
    const auto elements = static_cast<std::size_t>(bench.range(0)) << 18;
    std::vector<float> values(elements, 1.5f);
    const auto snapshot = *Snapshot::make({}, {{.name = "w", .values = std::move(values)}});
    std::string root;
    for (auto _ : bench) root = make_manifest(*snapshot).root.short_hex();
    bench.SetBytesProcessed(static_cast<std::int64_t>(bench.iterations()) *
                            static_cast<std::int64_t>(snapshot->bytes_size()));
    bench.SetLabel(root);  // the work may not change with its speed
}
BENCHMARK(BM_MakeManifest)->Arg(1)->Arg(64);

void BM_CopyChunk(benchmark::State& bench) {
    std::vector<float> values(std::size_t{4} << 20, 1.5f);
    const auto snapshot = *Snapshot::make({}, {{.name = "w", .values = std::move(values)}});
    for (auto _ : bench) benchmark::DoNotOptimize(chunk(*snapshot, 7));
    bench.SetBytesProcessed(static_cast<std::int64_t>(bench.iterations()) *
                            static_cast<std::int64_t>(chunk_bytes));
}
BENCHMARK(BM_CopyChunk);

}  // namespace
}  // namespace dedloc::state
