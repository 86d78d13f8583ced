// `dedloc sample` with a language model prints text behind each prompt, as it is written.
//
// Thread: the main thread. Returns the exit code.

#pragma once
#include <string>
#include <vector>

#include "dedloc/cli/commands.h"
#include "dedloc/peer/visitor.h"

namespace dedloc::cli {

int write_texts(const SampleOptions& options,
                const peer::Visited& from,
                const std::vector<std::string>& prompts);

}  // namespace dedloc::cli
