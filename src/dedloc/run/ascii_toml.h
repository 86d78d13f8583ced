// TOML files of users and peers as plain ASCII, so that the parser survives them.
//
// toml++ 3.3 runs into undefined behaviour where it meets letters beyond ASCII outside quotes
// (is_non_ascii_horizontal_whitespace, U+00FC), and asserts that a name follows a '[' and that no
// '}' follows a comma in a list. Files come from peers, too, so it gets ASCII only: letters in
// texts become \u escapes, those in comments '?', and what our files do not need (lists, braces,
// texts of several lines, control characters) is refused. Lines stay lines. The guard only has to
// read quotes right up to the parser's first error.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::run {

// Errors: bad_input, "demo.toml:7:1: this is not UTF-8".
Result<std::string> ascii_toml(std::string_view text, std::string_view file_name);

}  // namespace dedloc::run
