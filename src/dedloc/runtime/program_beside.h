// Programs that are built and installed beside the one that runs: helpers, the trainer.
//
// Thread: any. Cost: reads a link of the kernel's.

#pragma once
#include <string>
#include <string_view>

namespace dedloc::runtime {

// The path that a program of this name has there, whether there is one or not. A bare name where
// the kernel does not say which program runs.
std::string program_beside(std::string_view name);

}  // namespace dedloc::runtime
