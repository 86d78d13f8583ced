// Shows users that a task reads something long: a line on standard error every few seconds.
//
// Thread: the one that makes the task.

#pragma once
#include <functional>
#include <string_view>

namespace dedloc::peer {

// For tasks::TaskOptions::progress. `quiet`: it says nothing.
std::function<void(std::string_view what, std::size_t done, std::size_t all)> task_progress(
    bool quiet = false);

}  // namespace dedloc::peer
