// RunCopy: the run file that a peer keeps in its own folder. By it a folder tells whose it is: a
// peer of another run would add to the certificates, samples and votes there, take the secret's
// place and hide the checkpoints.
//
// Thread: any; blocks for a file.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/collab/node.h"
#include "dedloc/run/run_file.h"

namespace dedloc::train {

inline constexpr std::string_view run_copy_file = "run.toml";

// Refuses a folder in which a peer of another run has its files. A folder without an identity is no
// peer's, and a copy that this version cannot read tells nothing. Errors: bad_input.
Ok check_folder_of(const std::string& directory, const Digest& run);

// Errors: local_fault.
Ok keep_run_copy(const collab::Node& node, const run::RunFile& run);

}  // namespace dedloc::train
