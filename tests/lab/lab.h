// The commands of `dedloc-lab`; those with real processes or libtorch are in process_commands.h.
//
//   dedloc-lab simulate --seeds 1000 --peers 5-20 [--first S] [--plant NAME] [--threads N] [--json]
//   dedloc-lab audit DIR… [--json]
//   dedloc-lab nat [--cell KIND:KIND]… [--json]
//   dedloc-lab codecs [--data normal|laplace|spread] [--json]

#pragma once
#include <string>
#include <vector>

namespace dedloc::lab {

// `program` is argv[0]. Returns the exit code: 0 fine, 2 wrong arguments,
// 9 a check failed.
int run(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace dedloc::lab
