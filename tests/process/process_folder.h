// Where the lab's real processes come from and where their files go.
//
// Thread: any. Errors: local_fault.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::lab {

// The paths of the running program, and of the `dedloc` that can train.
std::string this_program();
std::string dedloc_program();  // the `dedloc` beside this one

// `wanted`, which must be empty or not there; or, without one, a new folder, in memory where there
// is such a place: votes are synced to disk in every round, and a shared disk that stalls for
// seconds would be what is measured.
Result<std::string> process_folder(const std::string& wanted, const std::string& name);

// Removes it, or says that the peers' files stay there.
void end_process_folder(const std::string& folder, bool keep);

}  // namespace dedloc::lab
