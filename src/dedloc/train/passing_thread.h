// on_passing_thread: work with libtorch whose threads shall not outlive it.
//
//   task = on_passing_thread([&] { return make_task(...); });
//
// OpenMP gives each thread that computes a team of its own, and keeps it as long as that thread
// lives. Once a process has more of them than there are cores, libgomp's threads no longer spin
// between two operations but sleep, and wake again by a system call: of a small model's speed that
// takes a fifth (docs/decisions/0007). So only the thread that trains keeps a team; what else
// computes passes.
//
// Cost: starting a thread and a team, some 0.1 ms. Thread: any. Errors: what `work` throws.

#pragma once
#include <future>
#include <utility>

namespace dedloc::train {

template <typename Work>
auto on_passing_thread(Work&& work) {
    return std::async(std::launch::async, std::forward<Work>(work)).get();
}

}  // namespace dedloc::train
