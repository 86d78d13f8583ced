// Prompts: from the command line, from a file, and at every checkpoint of a peer.
//
// Thread: any. Errors: bad_input (none, too many, too long), not_found, local_fault.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::peer {

inline constexpr std::size_t prompts_max = 256;            // rows of a sheet
inline constexpr std::size_t prompt_bytes_max = 1u << 16;  // some more than a model's context takes
inline constexpr std::size_t prompts_file_bytes_max = 1u << 20;

// One a line; empty lines and those that begin with # do not count.
Result<std::vector<std::string>> prompts_of_file(const std::string& path);
Ok check_prompts(const std::vector<std::string>& prompts);

// A command for CheckpointHook that draws the prompts of `file` into prompts/step-N.png of the
// peer's folder, and latest.png, and then runs `then` (empty: nothing). With `writes_text` a text
// behind each goes into step-N.txt and latest.txt instead.
std::string sheet_command(const std::string& file,
                          const std::string& peer_directory,
                          bool writes_text,
                          const std::string& then);

}  // namespace dedloc::peer
