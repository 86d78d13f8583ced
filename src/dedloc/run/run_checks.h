// Checks that a kind of task makes of the other sections of a run file ("batch.micro must be a
// number"). The checks of its own sections are in its schema (task_section.h).
//
// Thread: registration before main(); then any. Errors: bad_input, from a check.

#pragma once
#include <functional>
#include <string>

#include "dedloc/run/run_file.h"

namespace dedloc::run {

using RunCheck = std::function<Ok(const RunFile&)>;

// Once a kind.
void register_run_check(std::string kind, RunCheck check);

}  // namespace dedloc::run
