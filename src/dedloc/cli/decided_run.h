// A run file with what it left to the host decided, such as the hash of a tokenizer.
//
// The call takes as long as the task needs to make what is missing (training a tokenizer: seconds
// to minutes); afterwards that is in the cache. Blocks. Errors: those of tasks::make_task.

#pragma once
#include "dedloc/run/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

Result<run::RunFile> decided_run(run::RunFile run, const tasks::TaskOptions& options);

}  // namespace dedloc::cli
