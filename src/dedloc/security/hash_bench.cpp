// SHA-256 of a message and of bulk, and signatures, real and toy.

#include <benchmark/benchmark.h>

#include "dedloc/security/hash_list.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::security {
namespace {

void sha256_of(benchmark::State& state) {
    const Bytes data(static_cast<std::size_t>(state.range(0)), 7);
    for (auto step : state) benchmark::DoNotOptimize(sha256(data));
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sha256_of)->Arg(64)->Arg(1 << 20);

// Hashes so many at a time, a part's or a short one's.
template <bool by_vectors>
void hash_blocks(benchmark::State& state) {
    const Bytes data(static_cast<std::size_t>(state.range(0)), 7);
    std::vector<Digest> digests(data.size() / hash_block_bytes);
    for (auto step : state) {
        if constexpr (by_vectors) {
            if (!hash_blocks_by_vectors(data, digests)) return state.SkipWithError("no vectors");
        } else {
            hash_blocks_by_openssl(data, digests);
        }
        benchmark::DoNotOptimize(digests.data());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hash_blocks<false>)->Name("hash_blocks_by_openssl")->Arg(1 << 15)->Arg(1 << 20);
BENCHMARK(hash_blocks<true>)->Name("hash_blocks_by_vectors")->Arg(1 << 15)->Arg(1 << 20);

const Bytes message(200, 3);

template <typename SignerType>
SignerType signer();
template <>
IdentitySigner signer<IdentitySigner>() {
    return IdentitySigner(Identity::from_seed(Bytes(32, 1)).value());
}
template <>
ToySigner signer<ToySigner>() {
    return ToySigner(1);
}

template <typename SignerType>
void sign(benchmark::State& state) {
    const auto by = signer<SignerType>();
    for (auto step : state) benchmark::DoNotOptimize(by.sign("domain", message));
}
BENCHMARK(sign<IdentitySigner>);
BENCHMARK(sign<ToySigner>);

template <typename SignerType, typename VerifierType>
void verify(benchmark::State& state) {
    const auto by = signer<SignerType>();
    const Bytes signature = by.sign("domain", message);
    for (auto step : state)
        benchmark::DoNotOptimize(VerifierType().verify(by.id(), "domain", message, signature));
}
BENCHMARK(verify<IdentitySigner, IdentityVerifier>);
BENCHMARK(verify<ToySigner, ToyVerifier>);

}  // namespace
}  // namespace dedloc::security
