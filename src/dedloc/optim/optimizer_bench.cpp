// Nanoseconds an element of one step, one thread. 100,000 parameters fit a cache, 20 million do
// not. The anchor `copy` moves a parameter vector once.

#include <benchmark/benchmark.h>
#include <cstring>
#include <vector>

#include "dedloc/optim/optimizer.h"

namespace dedloc::optim {
namespace {

void report(benchmark::State& state) {
    const auto elements = static_cast<double>(state.iterations() * state.range(0));
    state.counters["ns/element"] = benchmark::Counter(
        elements * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void copy(benchmark::State& state) {
    const std::vector<float> from(static_cast<std::size_t>(state.range(0)), 0.5f);
    std::vector<float> to(from.size());
    for (auto turn : state) {
        std::memcpy(to.data(), from.data(), 4 * from.size());
        benchmark::ClobberMemory();
    }
    report(state);
}

void run(benchmark::State& state, const OptimizerConfig& config) {
    const auto size = static_cast<std::size_t>(state.range(0));
    std::vector<float> parameters(size, 0.1f);
    std::vector<float> gradient(size);
    for (std::size_t i = 0; i < size; ++i)
        gradient[i] =
            1e-5f * static_cast<float>(static_cast<int>(i * 2654435761u >> 20 & 2047) - 1024);
    std::vector<ParameterGroup> groups;
    constexpr std::size_t layers = 20;
    for (std::size_t i = 0; i < layers; ++i) {
        groups.push_back({.name = "layer", .offset = i * (size / layers), .count = size / layers});
    }
    const MomentSizes sizes = moment_sizes(config, groups, size);
    std::vector<std::vector<float>> values(2, std::vector<float>(sizes.values));
    std::vector<std::vector<std::uint8_t>> codes(2, std::vector<std::uint8_t>(sizes.codes));
    std::vector<std::vector<float>> scales(2, std::vector<float>(sizes.scales));
    std::vector<MomentView> moments;
    for (std::size_t i = 0; i < moments_count(config); ++i)
        moments.push_back({values[i], codes[i], scales[i]});
    std::uint64_t global_step = 0;
    for (auto turn : state) {
        step(config, groups, global_step++, parameters, gradient, moments);
        benchmark::ClobberMemory();
    }
    report(state);
}

void sgd(benchmark::State& state) { run(state, {.weight_decay = 1e-4}); }
void sgd_clipped(benchmark::State& state) { run(state, {.gradient_norm_max = 1}); }
void sgd_larc(benchmark::State& state) { run(state, {.larc = true}); }
void adamw(benchmark::State& state) {
    run(state, {.kind = OptimizerKind::adamw, .schedule = {.peak = 1e-4}, .weight_decay = 0.01});
}
void lamb(benchmark::State& state) {
    run(state, {.kind = OptimizerKind::lamb, .schedule = {.peak = 1e-4}, .weight_decay = 0.01});
}
void lamb8(benchmark::State& state) {
    run(state,
        {.kind = OptimizerKind::lamb,
         .schedule = {.peak = 1e-4},
         .weight_decay = 0.01,
         .moments_8bit = true});
}
BENCHMARK(copy)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd_clipped)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd_larc)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(adamw)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(lamb)->Arg(100'000)->Arg(17'800'000)->Arg(20'000'000);
BENCHMARK(lamb8)->Arg(17'800'000);

}  // namespace
}  // namespace dedloc::optim
