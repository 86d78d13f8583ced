// The join string that a user means: the argument itself, "-" (a line of standard input) or
// "@FILE".
//
// A join string holds the run's secret, and every user of a machine can read the arguments of every
// process there.
//
// Errors: bad_input. Blocks until the line is there. Thread: any.

#pragma once
#include <string>
#include <unistd.h>

#include "dedloc/base/result.h"

namespace dedloc::cli {

Result<std::string> join_string_from(const std::string& given, int standard_input = STDIN_FILENO);

}  // namespace dedloc::cli
