// A task's settings for machines at home (`init --home`): local steps, sparse rounds, and computing
// beside them (docs/few-bytes.md). As many samples as before, in fewer rounds.
//
// Thread: any; pure. Errors: bad_input: the task makes no local updates.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::templates {

// `settings`: a whole run file. `local_example`: what stands below [local] (tasks::RunTemplate).
Result<std::string> settings_for_home(const std::string& settings,
                                      std::string_view local_example,
                                      std::size_t homes);

}  // namespace dedloc::templates
