#include "dedloc/cli/decided_run.h"

#include <utility>

namespace dedloc::cli {

Result<collab::RunFile> decided_run(collab::RunFile run, const tasks::TaskOptions& options) {
    const bool open = run.task.kind == "albert" && run.task.text.tokenizer_hash == "none";
    if (!open) return run;
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, options));
    if (auto decided = task->decided_config()) run.task = *std::move(decided);
    return run;
}

}  // namespace dedloc::cli
