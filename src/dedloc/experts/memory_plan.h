// plan_memory divides the memory of a server of experts: so many experts, so many bytes of calls.
// All that it does besides is reserved before the first expert is served: computing the largest
// batch (measured on this machine), copies that come and go, answers for who repeats a call.
//
// Pure. Errors: cannot_compute: not even one expert fits; says how much that would take.

#pragma once
#include <cstdint>

#include "dedloc/base/result.h"

namespace dedloc::experts {

struct MemoryNeeds {
    std::uint64_t expert = 0;  // parameters and optimizer state of one
    std::uint64_t beside = 0;  // more that each takes: gradients that wait (update_pool.h)
    std::uint64_t work = 0;    // the largest batch, with kernels and the library's own
    std::uint64_t call = 0;    // tensors of the largest call
};

struct MemoryPlan {
    std::uint64_t experts_max = 0;
    std::uint64_t queued_bytes_max = 0;
    std::uint64_t replies_bytes_max = 0;
    std::uint64_t work = 0;    // must be free whenever a batch is computed
    std::uint64_t copies = 0;  // likewise when an expert is taken over
};

Result<MemoryPlan> plan_memory(std::uint64_t bytes, const MemoryNeeds& needs);

}  // namespace dedloc::experts
