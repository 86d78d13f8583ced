// Settings of the command line in the text of a run file: `--set batch.target=2048`. The file keeps
// its comments and its order; what it does not have yet is added to its section.
//
// Values are those of the file; a word that is neither a number, nor true or false, nor in quotes
// already is put in quotes. What the run file's own checks say of a setting is the answer, unknown
// keys with the nearest known one. Errors: bad_input. Thread: any; pure.

#pragma once
#include <span>
#include <string>
#include <string_view>

#include "dedloc/run/run_file.h"

namespace dedloc::templates {

// `file_name`: for what is wrong in the text itself.
Result<std::string> with_settings(std::string text,
                                  std::span<const std::string> settings,
                                  std::string_view file_name);

}  // namespace dedloc::templates
