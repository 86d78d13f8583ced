// Visitor: takes the newest state of a run that is under way, with the file that its model needs,
// and leaves; for commands that look at a model. It has a fresh identity, listens nowhere, computes
// no gradient and has no vote; its folder is temporary.
//
// Blocks until the state is there. Errors: bad_input, unreachable, different_run; of a checkpoint
// also what find_checkpoint() has, and too little memory. Thread: the owner's.

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::peer {

struct Visited {
    run::RunFile run;
    std::shared_ptr<const tasks::TrainingTask> task;  // unprepared: no data are needed
    std::shared_ptr<const state::Snapshot> state;
};

// `goes_on` is asked a few times a second while the state comes, which may take minutes; no: the
// visit fails. Null: it goes on.
Outcome<Visited> visit_run(const std::string& join_text,
                           const std::string& directory,
                           const tasks::TaskOptions& options,
                           const std::function<void(const std::string&)>& tell,
                           const std::function<bool()>& goes_on = {});

// The same of a checkpoint on this disk (train/find_checkpoint.h).
Outcome<Visited> visit_checkpoint(const std::string& path, const tasks::TaskOptions& options);

}  // namespace dedloc::peer
