// Files of a run that its checkpoints are worth nothing without (the tokenizer), beside them.
//
// make_task() finds such a file in the user's cache, and caches are cleaned: what is made again
// may be another one, and then no peer may be left that has it. So a peer keeps them in its own
// folder as files/<hash>, and every copy that --publish makes has them inside.
//
// Blocks. Errors: local_fault; those of tasks::missing_files.

#pragma once
#include <string>

#include "dedloc/tasks/training_task.h"

namespace dedloc::peer {

inline constexpr std::string_view run_files_folder = "files";

// Into the peer's folder, where they are not there yet.
Ok keep_run_files(const std::string& peer_directory, const tasks::TrainingTask& task);

// Puts what this machine lacks where make_task() finds it, if it lies beside the checkpoint at
// `checkpoint` (its folder, absolute): in it, or in the folder of the peer that saved it. A damaged
// one is passed over, with a warning.
Ok restore_run_files(const std::string& checkpoint,
                     const run::TaskConfig& task,
                     const tasks::TaskOptions& options);

}  // namespace dedloc::peer
