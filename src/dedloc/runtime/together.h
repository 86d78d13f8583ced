// all_of: tasks that run at the same time and end together.
//
// Structured: when it returns or throws, every task has ended. Cancelling it cancels them all.
// Thread: the network thread (tasks interleave at their awaits). Cost: one allocation a task.

#pragma once
#include <vector>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

Task<void> all_of(std::vector<Task<void>> tasks);

// Ends when one of the two has ended; the other is cancelled and joined.
Task<void> first_of(Task<void> a, Task<void> b);

}  // namespace dedloc::runtime
