// A run file that the user has named, read whole.
//
// Thread: any; blocks. Errors: as base::read_file (not_found, …) and parse_run_file.

#pragma once
#include <string>

#include "dedloc/run/run_file.h"

namespace dedloc::run {

Result<RunFile> read_run_file(const std::string& path);

}  // namespace dedloc::run
