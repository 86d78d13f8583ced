#include "dedloc/collab/hello.h"

#include <utility>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

Bytes hello_proof(ByteView secret,
                  const PeerId& prover,
                  const PeerId& to,
                  ByteView nonce_caller,
                  ByteView nonce_callee) {
    Bytes message = to_bytes("dedloc-hello");
    for (const ByteView piece : {prover.bytes(), to.bytes(), nonce_caller, nonce_callee}) {
        base::put_u32_be(message, static_cast<std::uint32_t>(piece.size()));
        base::append(message, piece);
    }
    return to_bytes(security::hmac_sha256(secret, message).view());
}

Task<Result<HelloMessage>> say_hello(
    p2p::Host& host, PeerId peer, Bytes secret, Bytes nonce, TimePoint deadline) {
    HelloMessage request;
    request.nonce = nonce;
    Bytes bytes = wire::encode(request);
    std::string method = hello_method;
    auto answer = co_await host.call(peer, std::move(method), std::move(bytes), deadline);
    if (!answer) co_return std::move(answer).error();
    DEDLOC_CO_TRY(const HelloMessage reply, wire::decode<HelloMessage>(*answer));
    const Bytes expected = hello_proof(secret, peer, host.id(), nonce, reply.nonce);
    if (reply.nonce.size() != hello_nonce_bytes ||
        !security::equal_in_constant_time(reply.proof, expected))
        co_return make_error(ErrorKind::denied,
                             "peer {} could not prove that it knows the run's secret: it trains "
                             "another run, or the join string is from before the run was resumed; "
                             "ask for a fresh join string",
                             peer.short_text());
    HelloMessage prove;
    prove.nonce = reply.nonce;
    prove.proof = hello_proof(secret, host.id(), peer, nonce, reply.nonce);
    co_return prove;
}

}  // namespace dedloc::collab
