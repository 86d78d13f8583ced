// The congestion control of a TCP socket, by the kernel's name for it ("cubic", "bbr", …).
//
// Thread: any. Cost: one system call.

#pragma once
#include <string>

namespace dedloc::runtime {

// Zero, or errno: EPERM (only root may use it), ENOENT (this system has none of that name).
int set_congestion_control(int socket, const std::string& name);

}  // namespace dedloc::runtime
