// A file is read whole: a user's, or one that an earlier process left. For programs at their start
// and their end; what runs in virtual time reads through runtime::Disk.
//
// Thread: any; blocks.

#pragma once
#include <cstddef>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::base {

// Errors: not_found, with the reason; bad_input for a folder, and for more than `bytes_max` bytes;
// local_fault where the disk fails on the way.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

}  // namespace dedloc::base
