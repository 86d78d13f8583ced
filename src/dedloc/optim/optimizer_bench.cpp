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
    std::vector<float> gradient(size, 1e-3f);
    std::vector<std::vector<float>> moments(moments_count(config), std::vector<float>(size, 0.0f));
    std::vector<std::span<float>> spans(moments.begin(), moments.end());
    std::vector<ParameterGroup> groups;
    constexpr std::size_t layers = 20;
    for (std::size_t i = 0; i < layers; ++i) {
        groups.push_back({.name = "layer", .offset = i * (size / layers), .count = size / layers});
    }
    std::uint64_t global_step = 0;
    for (auto turn : state) {
        step(config, groups, global_step++, parameters, gradient, spans);
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
BENCHMARK(copy)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd_clipped)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(sgd_larc)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(adamw)->Arg(100'000)->Arg(20'000'000);
BENCHMARK(lamb)->Arg(100'000)->Arg(20'000'000);

}  // namespace
}  // namespace dedloc::optim
