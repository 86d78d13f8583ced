// Checkpoints: a state, its run file and the caller's extra bytes on disk, whole or not at all.
//
// A checkpoint is a folder "step-000000000012-ab12cd34" below the folder of checkpoints:
//   chunks-00000 …    16 chunks of the state each, as in transfers
//   manifest          the state's manifest
//   run.toml          the run file as text
//   extra             the caller's bytes
//   checkpoint.json   what it is; written last: without it the folder does not count
// All hashes are checked when it is loaded (docs/spec/state.md).
//
// Errors: local_fault (disk full: the sentence says so, the checkpoints before it are intact and
//         the half-written folder is gone), bad_input (damaged: which file, and which older
//         checkpoint to load instead), not_found.
// Cost: one write of the state; the calls block: run them on Workers. Thread: any, one at a time.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/runtime/disk.h"
#include "dedloc/state/manifest.h"

namespace dedloc::state {

inline constexpr std::size_t checkpoints_listed_max = 1024;
inline constexpr std::size_t chunks_per_file = 16;

struct Checkpoint {
    std::shared_ptr<const PublishedState> state;
    std::string run_file;
    Bytes extra;
};

struct CheckpointSummary {
    std::string name;  // of its folder
    Digest root;
    Digest run;
    Digest branch;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;
    // 1, 2, … in the order of saving; 0: by a version that did not count. A folder may hold more
    // than one history of its run (begun again, gone on from an earlier step): only this tells
    // which of two checkpoints is the newer one.
    std::uint64_t saved = 0;
};

// Which checkpoints stay when another one is saved. Those of unfinished saves never do.
// A run that is begun again by mistake does not cost what the one before it has come to: of the
// history before this one the last checkpoint stays, and of all before that the furthest. Those of
// another run in the same folder all stay.
struct KeepRule {
    std::size_t newest = 3;  // ≥ 1; the one just saved is among them
    // The first one of every so many steps stays for good: with 1000, that of step 1000 (or the
    // first after it), 2000 … of each history. 0: none.
    std::uint64_t every_steps = 0;
    std::vector<std::string> also{};  // names: somebody is reading them
};

// Writes the checkpoint, then removes what the rule does not keep.
Result<CheckpointSummary> save_checkpoint(runtime::Disk& disk,
                                          const std::string& folder,
                                          const Checkpoint& checkpoint,
                                          const KeepRule& keep = {});

// Finished checkpoints, newest (last saved) first; none: an empty list. Does not read chunks.
Result<std::vector<CheckpointSummary>> list_checkpoints(runtime::Disk& disk,
                                                        const std::string& folder);

// `name` as in the summary. Everything is verified. `memory_max`: bytes that the state may take
// (0: any); a larger one is cannot_compute, before it is read.
Result<Checkpoint> load_checkpoint(runtime::Disk& disk,
                                   const std::string& folder,
                                   const std::string& name,
                                   std::uint64_t memory_max = 0);

struct NewestCheckpoint {
    Checkpoint checkpoint;
    CheckpointSummary summary;
    std::vector<std::string> skipped;  // a sentence for each newer one that is damaged
};

// The newest that is intact. not_found: there is none; bad_input: all are damaged.
Result<NewestCheckpoint> load_newest_checkpoint(runtime::Disk& disk,
                                                const std::string& folder,
                                                std::uint64_t memory_max = 0);

}  // namespace dedloc::state
