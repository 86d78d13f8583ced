// Where libtorch computes and with how many threads.
//
// Thread: any; set_compute_threads before the first tensor is made. Errors: bad_input for an
// unknown word, unsupported for "cuda" where there is none.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::torch_bridge {

// Threads of one operation, for the whole process; 0: libtorch's own choice, but no more than the
// process may use processors (affinity, quota: runtime/machine.h).
void set_compute_threads(int threads_count);

// "auto" (CUDA if there is a device that works, else the CPU), "cpu", "cuda", "cuda:1"; returns
// the device's name as libtorch writes it.
Result<std::string> choose_device(const std::string& wish);

}  // namespace dedloc::torch_bridge
