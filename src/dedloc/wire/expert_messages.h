// hivemind's messages of expert servers: rpc_info, rpc_forward, rpc_backward and their streams.
//
// A tensor's buffer is written by one of hivemind's compressions (codec/hivemind.h). In a stream a
// tensor may come in several messages: the first says what it is, and in how many chunks it comes;
// the others hold only bytes. A message whose dtype is not empty begins the next tensor.
//
// Fields 101 and above are ours; hivemind's programs skip them.
//
// Source: hivemind/proto/runtime.proto. Errors: bad_input (also when a list is longer than its
// _max). Whether shapes fit an expert is for `experts` to check. Thread: any.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

// hivemind's largest expert (a transformer) takes two inputs and one gradient.
inline constexpr std::size_t expert_tensors_max = 16;
inline constexpr std::size_t tensor_dimensions_max = 8;

struct RuntimeTensor {
    Bytes buffer;
    std::vector<std::uint32_t> size;  // of each axis; none: a scalar
    bool requires_grad = false;
    std::string dtype;  // "float32"; empty: more bytes of the tensor before
    std::uint32_t compression = 0;
    std::int32_t chunks = 0;

    friend bool operator==(const RuntimeTensor&, const RuntimeTensor&) = default;

    DEDLOC_FIELDS(buffer, (size, tensor_dimensions_max), requires_grad, dtype, compression, chunks)
};

struct ExpertUidMessage {
    std::string uid;

    DEDLOC_FIELDS(uid)
};

struct ExpertInfoMessage {
    Bytes serialized_info;  // MessagePack

    DEDLOC_FIELDS(serialized_info)
};

struct ExpertRequest {
    std::string uid;
    std::vector<RuntimeTensor> tensors;
    Bytes metadata;
    std::uint64_t request_id = 0;  // ours: one that is repeated is answered again, not done again
    std::uint64_t timeout_ms = 0;  // ours: the caller gives up after that; 0: not said

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.uid);
        visit(2, self.tensors, expert_tensors_max);
        visit(3, self.metadata);
        visit(101, self.request_id);
        visit(102, self.timeout_ms);
    }
};

struct ExpertResponse {
    std::vector<RuntimeTensor> tensors;
    Bytes metadata;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(2, self.tensors, expert_tensors_max);
        visit(3, self.metadata);
    }
};

}  // namespace dedloc::wire
