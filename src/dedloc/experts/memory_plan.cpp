#include "dedloc/experts/memory_plan.h"

#include <algorithm>

namespace dedloc::experts {

namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
// Connections, the table, records of peers.
constexpr std::uint64_t network_bytes = 16 * mebibyte;
// Snapshots in memory at a time: two that others load, one that comes, as bytes and as numbers,
// and an expert that is made of it.
constexpr std::uint64_t copies_count = 6;
constexpr std::uint64_t calls_least = 2;      // one is computed, one waits
constexpr std::uint64_t calls_fraction = 16;  // of all memory, for calls that wait
constexpr std::uint64_t replies_fraction = 32;
constexpr std::uint64_t queued_bytes_most = 256 * mebibyte;
constexpr std::uint64_t replies_bytes_most = 64 * mebibyte;

// A call comes as bytes, and its answer goes as such.
constexpr std::uint64_t call_copies = 2;

}  // namespace

Result<MemoryPlan> plan_memory(std::uint64_t bytes, const MemoryNeeds& needs) {
    MemoryPlan plan;
    plan.work = needs.work;
    plan.copies = copies_count * needs.expert;
    plan.queued_bytes_max = std::clamp(bytes / calls_fraction,
                                       calls_least * needs.call,
                                       std::max(queued_bytes_most, calls_least * needs.call));
    plan.replies_bytes_max = std::min(bytes / replies_fraction, replies_bytes_most);
    const std::uint64_t reserved = network_bytes + plan.work + plan.copies +
                                   call_copies * plan.queued_bytes_max + plan.replies_bytes_max;
    const std::uint64_t each = needs.expert + needs.beside;
    plan.experts_max = bytes > reserved ? (bytes - reserved) / each : 0;
    if (plan.experts_max > 0) return plan;
    // With the smallest queue; what is kept for replies grows with the memory.
    const std::uint64_t least =
        (network_bytes + plan.work + plan.copies + call_copies * calls_least * needs.call + each) *
        replies_fraction * calls_fraction /
        (replies_fraction * calls_fraction - calls_fraction - call_copies * replies_fraction);
    const auto whole = [](std::uint64_t amount) { return (amount + mebibyte - 1) / mebibyte; };
    return make_error(ErrorKind::cannot_compute,
                      "not one expert of this run fits in {} MiB: it takes {} MiB, computing its "
                      "largest batch {}, copies of experts that come and go {}, calls and "
                      "connections the rest; say --memory {} or more",
                      bytes / mebibyte,
                      whole(each),
                      whole(plan.work),
                      whole(plan.copies),
                      whole(least));
}

}  // namespace dedloc::experts
