// A relayed connection's bytes: a stream to a relay, after its OK, as a runtime::Connection. What
// runs over it is upgraded end to end like any other connection, so the relay sees ciphertext.
//
// Source: libp2p specs/relay/circuit-v2. Cost: one more copy than a socket, no system call.
// Thread: the network thread. Errors: peer_gone.

#pragma once
#include <memory>

#include "dedloc/runtime/network.h"
#include "dedloc/transport/stream.h"

namespace dedloc::p2p {

// `peer` and `relay` are for sentences only.
std::unique_ptr<runtime::Connection> make_relayed_bytes(std::shared_ptr<transport::Stream> stream,
                                                        const PeerId& peer,
                                                        const PeerId& relay);

// A message of the relay protocols with its length in front, within the stream's deadline; not one
// byte more is taken. Errors: peer_broke_protocol also for an end in place of the message.
Task<Result<Bytes>> read_relay_message(transport::Stream& stream);

}  // namespace dedloc::p2p
