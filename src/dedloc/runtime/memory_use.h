// How much memory this process takes of its own, and whether it would get more. A library that does
// not survive a failed allocation (oneDNN ends in a segmentation fault) is asked for nothing before
// that is known.
//
// Thread: any. Cost: small files read; of can_take_memory two system calls. Errors: what is not
// known is 0.

#pragma once
#include <cstdint>
#include <functional>

namespace dedloc::runtime {

struct OwnMemory {
    std::uint64_t resident = 0;  // without what only maps files: programs and libraries
    std::uint64_t data = 0;      // as RLIMIT_DATA counts: touched or not
};
OwnMemory own_memory();

// The system would give so much more now, whatever its limits are (RLIMIT_DATA, RLIMIT_AS).
bool can_take_memory(std::uint64_t bytes);

// Bytes that `work` took at most, above what was there before, resident.
std::uint64_t most_memory_during(const std::function<void()>& work);

}  // namespace dedloc::runtime
