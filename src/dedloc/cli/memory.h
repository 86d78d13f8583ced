// How much memory this process has and may have, as Linux tells it.
//
// Limits of a container below the machine's are not seen. Thread: any. Cost: reading two lines.

#pragma once
#include <cstdint>

#include "dedloc/collab/run_file.h"
#include "dedloc/train/micro_batch.h"

namespace dedloc::cli {

std::uint64_t memory_in_use();     // resident bytes of this process; 0: not known
std::uint64_t memory_available();  // bytes that the machine could still give; 0: not known

// What the search for a run's micro-batch may try: of memory, what is in use and half of what is
// available.
train::MicroBatchOptions micro_batch_options(const collab::RunFile& run);

}  // namespace dedloc::cli
