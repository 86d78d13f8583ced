// How much memory this process has and may have, as Linux tells it.
//
// Thread: any. Cost: reading two lines; memory_available() also reads the limits of a container.

#pragma once
#include <cstdint>
#include <filesystem>

#include "dedloc/collab/run_file.h"
#include "dedloc/trainer/micro_batch.h"

namespace dedloc::cli {

std::uint64_t memory_in_use();  // resident bytes of this process; 0: not known
// Bytes that the machine, or the container or service that this runs in, could still give; 0: not
// known.
std::uint64_t memory_available();

// What the limits of a process's control groups leave it: `own` says which they are
// (/proc/self/cgroup), `groups` is where they are (/sys/fs/cgroup). All limits from its own group
// outwards hold; a container may see its own only as the outermost. What files take that are in
// memory because there is room counts as left. No limit: the greatest number there is.
std::uint64_t memory_left_by_groups(const std::filesystem::path& groups,
                                    const std::filesystem::path& own);

// What the search for a run's micro-batch may try: of memory, what is in use and half of what is
// available.
trainer::MicroBatchOptions micro_batch_options(const collab::RunFile& run);

}  // namespace dedloc::cli
