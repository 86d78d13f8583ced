// Writes to open files of the system, for those whose files are only appended to.
//
// Errors: local_fault, with the system's reason. Thread: any; blocks.

#pragma once
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::monitor {

// The error of the system's last call (errno).
Error system_error();

// Takes away from `bytes` what it could write.
Ok write_some(int file, std::string_view& bytes);

}  // namespace dedloc::monitor
