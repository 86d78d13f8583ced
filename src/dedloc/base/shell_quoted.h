// A text as one word of a shell: for commands and scripts that dedloc writes for people.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <string_view>

namespace dedloc::base {

// The text in single quotes: no letter in it means anything to a shell.
std::string shell_quoted(std::string_view text);

}  // namespace dedloc::base
