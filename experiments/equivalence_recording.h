// A collaboration of real nodes in one process that takes steps together, and all that is needed to
// repeat them: for `dedloc-lab equivalence`.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/collab/collaboration.h"
#include "dedloc/consensus/plan.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/train/model.h"

namespace dedloc::lab::equivalence {

using collab::CounterRange;
using SnapshotPointer = std::shared_ptr<const state::Snapshot>;

constexpr std::uint64_t micro_batches_per_step = 4;  // of each peer
constexpr std::uint64_t micro_batch = 64;

// One step of the collaboration, as its certificate and its peers tell it.
struct StepRecord {
    consensus::Decision decision;
    consensus::RoundPlan plan;
    std::vector<Digest> states;  // of each peer after it
};

struct Recording {
    run::Layout layout;
    SnapshotPointer first;
    std::vector<SnapshotPointer> after;  // each step
    std::vector<PeerId> peers;
    std::vector<StepRecord> steps;
};

CounterRange samples_of_step(std::uint64_t step);

// The sums that one peer hands in for one step; `tell`, if any, hears of each micro-batch.
Result<std::vector<float>> contribution(train::SampledModel& learner,
                                        const run::Layout& layout,
                                        const state::Snapshot& state,
                                        CounterRange samples,
                                        collab::Collaboration* tell);

// Lets so many peers take so many steps; their files are in `folder`. Errors: what a peer said;
// timeout: they do not find each other; conflict: a step was no commit of all; bad_input: no run
// that can be repeated (replayable.h).
Result<Recording> record_collaboration(const tasks::TrainingTask& task,
                                       const run::RunFile& run,
                                       const std::string& folder,
                                       int peers,
                                       std::uint64_t steps);

}  // namespace dedloc::lab::equivalence
