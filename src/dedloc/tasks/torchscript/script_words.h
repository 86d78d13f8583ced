// Which operators a TorchScript model may use: those that compute with numbers. None reads or
// writes a file, calls Python or another machine, or loops (a loop has no bound).
//
// Thread: any; pure.

#pragma once
#include <string_view>

namespace dedloc::tasks {

// By libtorch's name: "aten::conv2d", "prim::If".
bool is_allowed_operator(std::string_view name);

}  // namespace dedloc::tasks
