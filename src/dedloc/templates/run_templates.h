// Run files to start from: what `dedloc init` writes and what `dedloc demo` runs.
//
// Thread: any; pure. Errors: bad_input names the known tasks, or sizes.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::templates {

// `size`: of RunTemplate::sizes; empty: the one to start from.
// `homes`: for so many machines with slow lines (home_settings.h); 0: not for such.
Result<std::string> run_template(std::string_view task,
                                 std::string_view size = {},
                                 std::size_t homes = 0);
// A run file that goes on with a model in Hugging Face's format. bad_input: the task reads none.
Result<std::string> run_template_for_weights(std::string_view task,
                                             const std::string& folder,
                                             std::size_t homes = 0);
// The same text as examples/demo.toml (a test compares).
std::string_view demo_run_file();

}  // namespace dedloc::templates
