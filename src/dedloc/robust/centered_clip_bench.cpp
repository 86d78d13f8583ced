// CenteredClip of one part, one thread: seven of sixteen members attack. `ns/element/member/pass`
// is the whole cost over members and iterations, which would each be a pass over all elements if
// the iterations did not run over inner products. The anchor `mean` adds the same vectors.

#include <benchmark/benchmark.h>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/robust/centered_clip.h"
#include "dedloc/robust/medians.h"
#include "dedloc/robust/projections.h"
#include "dedloc/robust/vectors_testing.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::robust {
namespace {

constexpr std::size_t elements = 1u << 18;

std::vector<std::vector<float>> attacked(std::size_t members) {
    Random random(1);
    std::vector<std::vector<float>> vectors(members, std::vector<float>(elements));
    for (std::size_t m = 0; m < members; ++m)
        for (float& each : vectors[m])
            each = static_cast<float>((m < members * 7 / 16 ? -1000 : 1) *
                                      (0.003 + 0.001 * random.normal()));
    return vectors;
}

void report(benchmark::State& state, const char* name, double times) {
    state.counters[name] = benchmark::Counter(
        static_cast<double>(state.iterations()) * times * static_cast<double>(elements) * 1e-9,
        benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void clip(benchmark::State& state) {
    const auto members = static_cast<std::size_t>(state.range(0));
    const auto vectors = attacked(members);
    const VectorInputs inputs(views_of(vectors));
    const std::vector<double> weights(members, 8.0);
    std::vector<float> out(elements);
    ClipReport made;
    for (auto turn : state) {
        made = centered_clip(inputs, weights, {.tau = 1}, out);
        benchmark::ClobberMemory();
    }
    report(state, "ns/element/member", static_cast<double>(members));
    report(state, "ns/element/member/pass", static_cast<double>(members) * made.iterations);
    state.counters["iterations"] = made.iterations;
}

void mean(benchmark::State& state) {
    const auto members = static_cast<std::size_t>(state.range(0));
    const auto vectors = attacked(members);
    std::vector<float> out(elements);
    for (auto turn : state) {
        std::fill(out.begin(), out.end(), 0.0f);
        for (const auto& vector : vectors) tensor::add_weighted(out, vector, 1.0f);
        benchmark::ClobberMemory();
    }
    report(state, "ns/element/member", static_cast<double>(members));
}

void median(benchmark::State& state) {
    const auto members = static_cast<std::size_t>(state.range(0));
    const auto vectors = attacked(members);
    const std::vector<double> weights(members, 8.0);
    std::vector<float> out(elements);
    for (auto turn : state) {
        coordinate_median(VectorInputs(views_of(vectors)), weights, out);
        benchmark::ClobberMemory();
    }
    report(state, "ns/element/member", static_cast<double>(members));
}

void project(benchmark::State& state) {
    const auto vectors = attacked(2);
    const Projections projections{Digest()};
    Projections::Sums sums;
    for (auto turn : state) {
        projections.add(0, vectors[0], vectors[1], sums);
        benchmark::DoNotOptimize(sums);
    }
    report(state, "ns/element/member", 1);
}

BENCHMARK(mean)->Arg(4)->Arg(16);
BENCHMARK(median)->Arg(4)->Arg(16);
BENCHMARK(clip)->Arg(4)->Arg(16)->Arg(64);
BENCHMARK(project);

}  // namespace
}  // namespace dedloc::robust
