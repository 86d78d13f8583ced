// Tells how much of its machine's memory this process may try to use.
//
// Thread: any. Cost: some small files read.

#pragma once
#include "dedloc/run/run_file.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/train/micro_batch.h"

namespace dedloc::peer {

using runtime::memory_available;
using runtime::memory_in_use;

// Bounds the search for a run's micro-batch: of memory, what is in use and half of what is
// available.
train::MicroBatchOptions micro_batch_options(const run::RunFile& run);

}  // namespace dedloc::peer
