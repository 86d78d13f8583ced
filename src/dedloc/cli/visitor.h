// Visitor: takes the newest state of a run that is under way, with the file that its model needs,
// and leaves. It has a fresh identity, listens nowhere, computes no gradient and has no vote; its
// folder is temporary.
//
// Blocks until the state is there. Errors: bad_input, unreachable, different_run. Thread: the
// owner's.

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

struct Visited {
    run::RunFile run;
    std::shared_ptr<const tasks::TrainingTask> task;  // unprepared: no data are needed
    std::shared_ptr<const state::Snapshot> state;
};

peer::Outcome<Visited> visit_run(const std::string& join_text,
                                 const std::string& directory,
                                 const tasks::TaskOptions& options,
                                 const std::function<void(const std::string&)>& say);

}  // namespace dedloc::cli
