// hivemind's two kinds of remote calls on a Stream whose protocol is the method's name: unary
// (one request, one answer, one stream a call) and streams of whole messages.
//
// The rules that make Python peers happy (docs/spec/rpc.md): the caller never half-closes and
// sends nothing after its request until the answer is there; any byte, end or reset means
// "cancelled" to the callee. A caller's last message is followed by an end-of-input record, a
// callee's by the end of its half.
//
// Limits: call_bytes_max, message_bytes_max; memory grows with what came, not with what was
// claimed. Thread: the network thread. Errors: host.h.

#pragma once
#include <memory>

#include "dedloc/p2p/host.h"
#include "dedloc/transport/stream.h"
#include "dedloc/wire/rpc_frames.h"

namespace dedloc::p2p {

// The request as bytes of a stream; bad_input when it is too large.
Result<Bytes> encode_call(const wire::CallId& id, const std::string& method, ByteView request);
// The caller's side, after propose(): sends the request, waits for the answer.
Task<Result<Bytes>> finish_call(std::unique_ptr<transport::Stream> stream,
                                wire::CallId id,
                                Bytes request);

// The callee's side: reads the request; writes the answer and ends our half.
Task<Result<wire::UnaryRequest>> read_call(transport::Stream& stream);
Bytes encode_answer(const wire::CallId& id, const Result<Bytes>& answer);

// Facts about what streams of one method were seen to carry.
struct MethodFacts {
    bool is_bulk = false;  // one of them has moved bulk_stream_bytes_min
};
// `facts`, where given, learn from this stream.
std::unique_ptr<MessageStream> make_message_stream(std::shared_ptr<transport::Stream> stream,
                                                   std::shared_ptr<MethodFacts> facts = nullptr);

}  // namespace dedloc::p2p
