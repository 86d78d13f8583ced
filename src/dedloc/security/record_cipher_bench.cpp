// Sealing records of TLS: OpenSSL's cipher, and the one with vectors where this machine has it.

#include <benchmark/benchmark.h>

#include "dedloc/security/record_cipher.h"

namespace dedloc::security {
namespace {

void seal_records(benchmark::State& state, std::unique_ptr<RecordCipher> cipher) {
    if (!cipher) return state.SkipWithError("OpenSSL is as fast here");
    constexpr std::size_t record_bytes = 16 * 1024;
    const Bytes plain(static_cast<std::size_t>(state.range(0)), 7);
    const Bytes header{23, 3, 3, 64, 17};
    Bytes out(plain.size() / record_bytes * (record_bytes + 1 + tls_tag_bytes));
    for (auto step : state) {
        std::uint8_t* to = out.data();
        for (std::size_t from = 0; from < plain.size(); from += record_bytes) {
            cipher->seal({}, header, ByteView(plain).subspan(from, record_bytes), 23, to);
            to += record_bytes + 1 + tls_tag_bytes;
        }
        benchmark::DoNotOptimize(out.data());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

void seal_by_openssl(benchmark::State& state) {
    seal_records(state, make_openssl_cipher(Aead::aes_128_gcm, Bytes(16, 1), Direction::seal));
}
BENCHMARK(seal_by_openssl)->Arg(1 << 20);

void seal_by_vectors(benchmark::State& state) {
    seal_records(state, make_vector_cipher(Aead::aes_128_gcm, Bytes(16, 1), Direction::seal));
}
BENCHMARK(seal_by_vectors)->Arg(1 << 20);

}  // namespace
}  // namespace dedloc::security
