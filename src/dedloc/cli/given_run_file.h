// The run file that a command line names.
//
// Thread: any; blocks. Errors: bad_input, also for a file that is not there: to a user a wrong path
// is a wrong argument, not data that are missing.

#pragma once
#include <span>
#include <string>

#include "dedloc/run/run_file.h"

namespace dedloc::cli {

Result<run::RunFile> given_run_file(const std::string& path);
// With settings of the command line (run_file_settings.h).
Result<run::RunFile> given_run_file(const std::string& path, std::span<const std::string> settings);

}  // namespace dedloc::cli
