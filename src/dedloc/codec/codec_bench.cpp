// Bytes of floats a second (not of encoded bytes), per codec; 64 MiB, one thread. The anchor is a
// plain copy of the same floats.

#include <benchmark/benchmark.h>
#include <cstring>

#include "dedloc/codec/codec.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t elements = 16 << 20;

void count(benchmark::State& state) {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * elements));
}

CodecId codec_of(benchmark::State& state) {
    const CodecId id = *codec_from_number(static_cast<std::uint64_t>(state.range(0)));
    state.SetLabel(std::string(to_string(id)));
    return id;
}

void copy(benchmark::State& state) {
    const std::vector<float> values(elements, 0.1f);
    std::vector<float> out(elements);
    for (auto turn : state) {
        std::memcpy(out.data(), values.data(), 4 * elements);
        benchmark::ClobberMemory();
    }
    count(state);
}
BENCHMARK(copy);

void encode_vector(benchmark::State& state) {
    const CodecId id = codec_of(state);
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
    const Bytes bytes = encode(id, std::vector<float>(elements, 0.1f));
    std::vector<float> sum(elements);
    for (auto turn : state) {
        benchmark::DoNotOptimize(decode_accumulate(id, bytes, 1e-3f, sum).has_value());
        benchmark::ClobberMemory();
    }
    count(state);
}

void every_codec(benchmark::internal::Benchmark* bench) {
    for (const CodecId id : all_codecs()) bench->Arg(static_cast<int>(id));
}
BENCHMARK(encode_vector)->Apply(every_codec);
BENCHMARK(decode_vector)->Apply(every_codec);
BENCHMARK(decode_add)->Apply(every_codec);

}  // namespace
}  // namespace dedloc::codec
