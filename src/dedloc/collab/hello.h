// Hello: how two peers that meet prove to each other that they know the run's secret, before either
// tells anything of the run.
//
//   /dedloc/hello/1        {2 nonce} -> {2 nonce, 3 proof}
//   /dedloc/hello/1/prove  {1 run, 2 callee's nonce, 3 proof, 5 own status, 6 only the run file}
//                          -> {5 signed statuses}, or {1 run, 4 run file} where that was asked for,
//                          or the caller names another run
// proof = HMAC-SHA-256(secret, "dedloc-hello" ‖ who proves ‖ to whom ‖ caller's nonce ‖ callee's)
//
// A stranger learns that a peer speaks this, and a proof that is of use to those alone who know the
// secret. (A caller may name its run in the first message already, as earlier versions did.)
//
// Thread: the network thread. Errors: denied (the other side does not know the secret); as calls.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/collab/status.h"
#include "dedloc/p2p/host.h"

namespace dedloc::collab {

inline constexpr const char* hello_method = "/dedloc/hello/1";
inline constexpr const char* prove_method = "/dedloc/hello/1/prove";
inline constexpr std::size_t hello_nonce_bytes = 16;

struct HelloMessage {
    Digest run;
    Bytes nonce;
    Bytes proof;
    std::string run_file;
    std::vector<Bytes> statuses;
    std::uint64_t wants_run_file = 0;  // and nothing else: 1
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.run);
        visit(2, self.nonce);
        visit(3, self.proof);
        visit(4, self.run_file);
        visit(5, self.statuses, peers_max);
        visit(6, self.wants_run_file);
    }
};

Bytes hello_proof(ByteView secret,
                  const PeerId& prover,
                  const PeerId& to,
                  ByteView nonce_caller,
                  ByteView nonce_callee);

// The caller's first half, with a fresh nonce: what `peer` must be sent to prove_method, once it
// has proved that it knows the secret.
Task<Result<HelloMessage>> say_hello(
    p2p::Host& host, PeerId peer, Bytes secret, Bytes nonce, TimePoint deadline);

}  // namespace dedloc::collab
