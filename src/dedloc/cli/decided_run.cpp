#include "dedloc/cli/decided_run.h"

#include <utility>

#include "dedloc/tasks/registry.h"

namespace dedloc::cli {

Result<run::RunFile> decided_run(run::RunFile run, const tasks::TaskOptions& options) {
    const tasks::TaskKind* kind = tasks::find_task(run.task.kind);
    if (!kind || !kind->is_undecided || !kind->is_undecided(run.task)) return run;
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, options));
    if (auto decided = task->decided_config()) run.task = *std::move(decided);
    return run;
}

}  // namespace dedloc::cli
