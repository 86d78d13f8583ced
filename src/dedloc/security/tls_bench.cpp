// TLS between two channels in memory, both ends on one core: megabytes per second for a write of
// 64 KiB and of 1 MiB, and complete handshakes per second (both sides).

#include <benchmark/benchmark.h>

#include "dedloc/security/tls.h"

namespace dedloc::security {
namespace {

constexpr WallSeconds now = 1750000000;

struct Pair {
    std::shared_ptr<const TlsContext> context =
        TlsContext::make(Identity::from_seed(Bytes(32, 1)).value());
    TlsChannel client = TlsChannel::client(context, std::nullopt, now);
    TlsChannel server = TlsChannel::server(context, now);
};

bool establish(TlsChannel& client, TlsChannel& server) {
    return server.feed(client.take_output()) && client.feed(server.take_output()) &&
           server.feed(client.take_output()) && client.handshake_done() && server.handshake_done();
}

void transfer(benchmark::State& state) {
    Pair pair;
    if (!establish(pair.client, pair.server)) return state.SkipWithError("no handshake");
    const Bytes data(static_cast<std::size_t>(state.range(0)), 7);
    Bytes received(data.size());
    for (auto step : state) {
        if (!pair.client.encrypt(data) || !pair.server.feed(pair.client.take_output()))
            return state.SkipWithError("broken");
        benchmark::DoNotOptimize(pair.server.read_plain(received));
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(transfer)->Arg(16 << 10)->Arg(64 << 10)->Arg(1 << 20);

void encrypt_only(benchmark::State& state) {
    Pair pair;
    if (!establish(pair.client, pair.server)) return state.SkipWithError("no handshake");
    const Bytes data(static_cast<std::size_t>(state.range(0)), 7);
    for (auto step : state) {
        if (!pair.client.encrypt(data)) return state.SkipWithError("broken");
        benchmark::DoNotOptimize(pair.client.take_output());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(encrypt_only)->Arg(64 << 10)->Arg(1 << 20);

void handshake(benchmark::State& state) {
    const auto context = TlsContext::make(Identity::from_seed(Bytes(32, 1)).value());
    for (auto step : state) {
        TlsChannel client = TlsChannel::client(context, std::nullopt, now);
        TlsChannel server = TlsChannel::server(context, now);
        if (!establish(client, server)) return state.SkipWithError("no handshake");
    }
}
BENCHMARK(handshake);

}  // namespace
}  // namespace dedloc::security
