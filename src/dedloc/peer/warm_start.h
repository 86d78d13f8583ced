// The first state of a new run that begins with what an earlier one learned (dedloc host --from),
// or with published weights (--weights).
//
// Parameters and buffers are the checkpoint's; the step is 0, and so are all counts: schedule, stop
// conditions and samples begin anew. The optimizer's moments come along where they mean the same to
// the new run's optimizer: of the same kind, and not corrected for how few steps made them, which
// is counted from step 0 again (AdamW and LAMB with `debias` would take moments that are finished
// for ones that have only begun, and make steps of a sixth of their size for hundreds of steps).
// A model of words keeps the tokenizer whose pieces its embeddings are.
//
// Pure. Thread: any. Cost: a copy of the state. Errors: bad_input (another model or tokenizer).

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::peer {

struct WarmSource {
    std::shared_ptr<const state::Snapshot> state{};
    std::string path{};
    // The optimizer of the run that it was saved in; none: its run file is another version's.
    std::optional<optim::OptimizerConfig> optimizer{};
    std::optional<run::TaskConfig> task{};
    bool weights_alone = false;  // of a folder that no run of ours saved (--weights)
};

struct WarmStart {
    std::shared_ptr<const state::Snapshot> state;
    std::string told;  // one sentence: what was taken
};

// The model decides what the new run's file leaves open (a tokenizer); bad_input where the
// file names another, and where nobody can tell.
Ok inherit(run::TaskConfig& task, const WarmSource& source);

Result<WarmStart> warm_start(const run::RunFile& run,
                             const run::Layout& layout,
                             const WarmSource& source);

}  // namespace dedloc::peer
