// Bytes of floats a second (not of encoded bytes), per codec, one thread: a part of 1 MiB, which
// stays in the cache, and 64 MiB from memory. The anchor is a plain copy of the same floats.
// `dedloc-lab codecs` measures the same, and hivemind's formats and errors beside.

#include <benchmark/benchmark.h>
#include <cstring>

#include "dedloc/codec/codec.h"

namespace dedloc::codec {
namespace {

std::size_t elements_of(benchmark::State& state) {
    return static_cast<std::size_t>(state.range(0));
}

void count(benchmark::State& state) {
    state.SetBytesProcessed(state.iterations() * 4 * state.range(0));
}

CodecId codec_of(benchmark::State& state) {
    const CodecId id = *codec_from_number(static_cast<std::uint64_t>(state.range(1)));
    state.SetLabel(std::string(to_string(id)));
    return id;
}

void copy(benchmark::State& state) {
    const std::size_t elements = elements_of(state);
    const std::vector<float> values(elements, 0.1f);
    std::vector<float> out(elements);
    for (auto turn : state) {
        std::memcpy(out.data(), values.data(), 4 * elements);
        benchmark::ClobberMemory();
    }
    count(state);
}
BENCHMARK(copy)->Arg(1 << 18)->Arg(16 << 20);

void encode_vector(benchmark::State& state) {
    const CodecId id = codec_of(state);
    const std::size_t elements = elements_of(state);
    const std::vector<float> values(elements, 0.1f);
    Bytes out(encoded_size(id, elements));
    for (auto turn : state) {
        encode_into(id, values, out);
        benchmark::ClobberMemory();
    }
    count(state);
}

void decode_vector(benchmark::State& state) {
    const CodecId id = codec_of(state);
    const std::size_t elements = elements_of(state);
    const Bytes bytes = encode(id, std::vector<float>(elements, 0.1f));
    std::vector<float> out(elements);
    for (auto turn : state) {
        benchmark::DoNotOptimize(decode(id, bytes, out).has_value());
        benchmark::ClobberMemory();
    }
    count(state);
}

void decode_add(benchmark::State& state) {
    const CodecId id = codec_of(state);
    const std::size_t elements = elements_of(state);
    const Bytes bytes = encode(id, std::vector<float>(elements, 0.1f));
    std::vector<float> sum(elements);
    for (auto turn : state) {
        benchmark::DoNotOptimize(decode_accumulate(id, bytes, 1e-3f, sum).has_value());
        benchmark::ClobberMemory();
    }
    count(state);
}

void every_codec(benchmark::internal::Benchmark* bench) {
    for (const CodecId id : all_codecs())
        for (const int elements : {1 << 18, 16 << 20})
            bench->Args({elements, static_cast<int>(id)});
}
BENCHMARK(encode_vector)->Apply(every_codec);
BENCHMARK(decode_vector)->Apply(every_codec);
BENCHMARK(decode_add)->Apply(every_codec);

}  // namespace
}  // namespace dedloc::codec
