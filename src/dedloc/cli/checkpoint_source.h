// The checkpoint that a user means by a path (train/find_checkpoint.h), and whose it is.
//
// Thread: any.

#pragma once
#include <string>

#include "dedloc/train/find_checkpoint.h"

namespace dedloc::cli {

using train::find_checkpoint;
using train::FoundCheckpoint;

// The folder of the peer that saved the checkpoint at `path` (absolute), or nothing, where it lies
// elsewhere (in a copy, in a published folder) or where we may not write.
std::string peers_folder(const std::string& path);

}  // namespace dedloc::cli
