// A run file with what it left to the host: the tokenizer's hash, once the tokenizer is there.
//
// May take as long as training a tokenizer does (seconds for the Bible, minutes for gigabytes);
// afterwards it is in the cache. Blocks. Errors: those of tasks::make_task.

#pragma once
#include "dedloc/collab/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

Result<collab::RunFile> decided_run(collab::RunFile run, const tasks::TaskOptions& options);

}  // namespace dedloc::cli
