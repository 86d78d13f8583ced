// Bytes of floats a second through each kernel. 64 KiB stay in a cache, 64 MiB do not.

#include <benchmark/benchmark.h>
#include <vector>

#include "dedloc/tensor/kernels.h"

namespace dedloc::tensor {
namespace {

template <typename Body>
void over_floats(benchmark::State& state, Body body) {
    const auto size = static_cast<std::size_t>(state.range(0)) / 4;
    std::vector<float> x(size, 0.37f);
    std::vector<float> y(size, 1e-3f);
    Bytes words(2 * size);
    halves_from_floats(x, words);
    for (auto turn : state) {
        body(x, y, words);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

#define DEDLOC_KERNEL_BENCH(name, expression)                  \
    void name(benchmark::State& state) {                       \
        over_floats(state, [](auto& x, auto& y, auto& words) { \
            (void)x, (void)y, (void)words;                     \
            expression;                                        \
        });                                                    \
    }                                                          \
    BENCHMARK(name)->Arg(64 << 10)->Arg(64 << 20)

DEDLOC_KERNEL_BENCH(encode_half, halves_from_floats(x, words));
DEDLOC_KERNEL_BENCH(encode_half_saturating, halves_from_floats_saturating(x, words));
DEDLOC_KERNEL_BENCH(decode_half, floats_from_halves(words, x));
DEDLOC_KERNEL_BENCH(encode_bfloat16, bfloat16_from_floats(x, words));
DEDLOC_KERNEL_BENCH(decode_bfloat16, floats_from_bfloat16(words, x));
DEDLOC_KERNEL_BENCH(add_floats, add_weighted(y, x, 1e-3f));
DEDLOC_KERNEL_BENCH(add_halves, add_weighted_halves(y, words, 1e-3f));
DEDLOC_KERNEL_BENCH(scale_floats, scale(y, -1.0f));
DEDLOC_KERNEL_BENCH(finite, benchmark::DoNotOptimize(all_finite(x)));
DEDLOC_KERNEL_BENCH(squares, benchmark::DoNotOptimize(sum_of_squares(x)));
DEDLOC_KERNEL_BENCH(reference_encode_half, reference::halves_from_floats(x, words));
DEDLOC_KERNEL_BENCH(reference_decode_half, reference::floats_from_halves(words, x));

}  // namespace
}  // namespace dedloc::tensor
