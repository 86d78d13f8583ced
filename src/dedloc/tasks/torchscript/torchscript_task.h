// A model that somebody wrote in PyTorch and saved as TorchScript, trained by peers that need no
// Python: [task] kind = "torchscript". What the file may do: script_graph.h; what forward() must
// return: script_module.h; which data there are: script_data.h.
//
// Dropout and other random operators draw from libtorch's generator, which is set before each
// micro-batch from (seed, peer, sample number): a gradient stays a pure function of these.
//
// Exported: model.pt, the same file with the run's parameters.
//
// Errors and threads: training_task.h; unsupported names the operator that is refused.

#pragma once
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const TrainingTask>> make_torchscript(const run::TaskConfig& config,
                                                             const TaskOptions& options);

}  // namespace dedloc::tasks
