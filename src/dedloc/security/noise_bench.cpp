// Noise between two channels in memory, both ends on one core: megabytes per second for writes of
// 16 KiB to 1 MiB, and complete handshakes per second (both sides). Compare with tls_bench.cpp.

#include <benchmark/benchmark.h>

#include "dedloc/security/noise.h"

namespace dedloc::security {
namespace {

std::shared_ptr<const NoiseContext> context() {
    static const auto made = NoiseContext::make(Identity::from_seed(Bytes(32, 1)).value());
    return made;
}

bool establish(NoiseChannel& initiator, NoiseChannel& responder) {
    return responder.feed(initiator.take_output()) && initiator.feed(responder.take_output()) &&
           responder.feed(initiator.take_output()) && initiator.handshake_done() &&
           responder.handshake_done();
}

void noise_transfer(benchmark::State& state) {
    NoiseChannel initiator = NoiseChannel::initiator(context(), std::nullopt);
    NoiseChannel responder = NoiseChannel::responder(context());
    if (!establish(initiator, responder)) return state.SkipWithError("no handshake");
    const Bytes data(static_cast<std::size_t>(state.range(0)), 7);
    Bytes received(data.size());
    for (auto step : state) {
        if (!initiator.encrypt(data) || !responder.feed(initiator.take_output()))
            return state.SkipWithError("broken");
        benchmark::DoNotOptimize(responder.read_plain(received));
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(noise_transfer)->Arg(16 << 10)->Arg(64 << 10)->Arg(1 << 20);

void noise_handshake(benchmark::State& state) {
    for (auto step : state) {
        NoiseChannel initiator = NoiseChannel::initiator(context(), std::nullopt);
        NoiseChannel responder = NoiseChannel::responder(context());
        if (!establish(initiator, responder)) return state.SkipWithError("no handshake");
    }
}
BENCHMARK(noise_handshake);

}  // namespace
}  // namespace dedloc::security
