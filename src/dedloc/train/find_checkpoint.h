// Finds the checkpoint that a user means by a path: a checkpoint's own folder, a folder of
// checkpoints (the newest intact one), or a peer's folder (the newest in its checkpoints/).
//
// Errors: bad_input (nothing like a checkpoint there, or damaged: says which file), local_fault.
// Thread: any. Blocks for a read of the state.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/state/checkpoint.h"

namespace dedloc::train {

inline constexpr std::string_view checkpoints_folder = "checkpoints";  // in a peer's folder

struct FoundCheckpoint {
    std::string path;
    state::Checkpoint checkpoint;
    std::vector<std::string> skipped;  // newer ones that are damaged, a sentence each
};

Result<FoundCheckpoint> find_checkpoint(const std::string& path);

}  // namespace dedloc::train
