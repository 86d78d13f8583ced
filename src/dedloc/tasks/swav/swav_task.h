// The task "swav": SwAV learns from pictures without labels (docs/images.md). Sizes, crops and the
// loss are in [swav] (swav_section.h).
//
// Errors: those of check_swav() and open_swav_pictures(); unsupported for devices.

#pragma once
#include <memory>

#include "dedloc/run/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const TrainingTask>> make_swav(const run::TaskConfig& config,
                                                      const TaskOptions& options);

}  // namespace dedloc::tasks
