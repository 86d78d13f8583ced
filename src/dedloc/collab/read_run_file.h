// A run file that the user has named, read whole.
//
// Thread: any; blocks. Errors: bad_input, also for a file that is not there.

#pragma once
#include <string>

#include "dedloc/collab/run_file.h"

namespace dedloc::collab {

Result<RunFile> read_run_file(const std::string& path);

}  // namespace dedloc::collab
