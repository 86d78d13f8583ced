// Keys of the run file that every dedloc knows. They are always written into the canonical form,
// and hashed. A key that came later is written only where it has another value than its default
// (run_file.cpp): an older dedloc then reads the files of a newer one, and both find the same hash.
// So no key is ever added to this list, no later key's default may change, and none of the first is
// taken away without a new run_format.
//
// Thread: any; pure.

#pragma once
#include <string_view>

namespace dedloc::run {

bool is_first_key(std::string_view key);

}  // namespace dedloc::run
