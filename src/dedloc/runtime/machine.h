// This process may have so much of its machine: memory, processors, threads. Linux tells of the
// machine, and of the control groups of a container or service.
//
// Thread: any. Cost: some small files read. Errors: nothing known is 0, or the machine's own.

#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "dedloc/base/result.h"

namespace dedloc::runtime {

std::uint64_t memory_in_use();  // resident bytes of this process; 0: not known
// Bytes that the machine, or the container or service that this runs in, could still give; 0: not
// known.
std::uint64_t memory_available();
// With what this process has already.
std::uint64_t memory_allowed();

// Bytes that the limits of a process's control groups leave it: `own` says which they are
// (/proc/self/cgroup), `groups` is where they are (/sys/fs/cgroup). All limits from its own group
// outwards hold; a container may see its own only as the outermost. What files take that are in
// memory because there is room counts as left. No limit: the greatest number there is.
std::uint64_t memory_left_by_groups(const std::filesystem::path& groups,
                                    const std::filesystem::path& own);

// So many processors' time this process gets at most, by the quotas of its groups (cpu.max,
// cpu.cfs_quota_us). No quota: 0.
double processors_by_groups(const std::filesystem::path& groups, const std::filesystem::path& own);

// So many threads are worth computing with at once: processors that this process may run on
// (affinity), and no more than its quota, rounded up. At least 1.
std::size_t usable_processors();
// The processors of the whole machine.
std::size_t processors();

// Starts so many threads, and ends them again: a library that cannot start its own ends the process
// without a word for people. Errors: local_fault, which names the limit.
Ok can_start_threads(std::size_t count);
// glibc loads libgcc when a thread is first ended from outside or traced, and aborts the process if
// there is no address space left for it then; after this it is there. Called at the start.
void load_unwinder();
// The error for people when a thread could not be started.
Error no_more_threads();

}  // namespace dedloc::runtime
