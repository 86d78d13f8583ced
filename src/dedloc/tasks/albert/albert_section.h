// [albert]: the sizes of the model (albert_config.h). No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/albert/albert_config.h"

namespace dedloc::tasks {

inline constexpr const char* albert_section_name = "albert";

// bad_input: sizes that make no model, or no room for text.length.
Result<AlbertConfig> albert_sizes(const run::TaskConfig& task);

}  // namespace dedloc::tasks
