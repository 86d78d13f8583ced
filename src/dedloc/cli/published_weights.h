// A model in Hugging Face's format as the beginning of a new run (dedloc host --weights).
//
// Blocks. Thread: any. Errors: those of TrainingTask::read_weights.

#pragma once
#include <string>

#include "dedloc/peer/warm_start.h"
#include "dedloc/run/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

// `run` is decided: its tokenizer is known. The folder is options.weights_directory.
Result<peer::WarmSource> published_weights(const run::RunFile& run, tasks::TaskOptions options);

}  // namespace dedloc::cli
