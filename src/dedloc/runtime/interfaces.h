// The network interfaces of this machine: which one leads to the Internet, which ones only join
// virtual machines.
//
// Thread: any. Cost: some system calls; nothing is sent.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::runtime {

// Is it a bridge that joins virtual machines or containers of this machine? (Or one to a real
// network; then the default route leads over it.)
bool is_bridge(const char* interface);

// The address of ours by which packets to the Internet leave. Empty: there is no way there.
// Errors: local_fault (out of descriptors).
Result<std::string> address_of_default_route();

}  // namespace dedloc::runtime
