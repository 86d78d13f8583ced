// How many files and sockets this process may have open at once.
//
// Many systems begin with 1,024 (the soft limit) and allow far more (the hard one). A peer that has
// none left can neither accept who calls nor write to its disk.
//
// Thread: any, before the others begin.

#pragma once
#include <cstddef>

namespace dedloc::runtime {

// As many as the system allows, and open_files_wanted at most: some libraries go through all of
// them. A system that refuses leaves what there was.
inline constexpr std::size_t open_files_wanted = 65536;
void raise_open_files();

std::size_t open_files_allowed();

}  // namespace dedloc::runtime
