// The synthetic task: a bowl whose lowest point is to be found with noisy gradients. It starts in
// milliseconds and needs no data and no libtorch, so that network, disk and collaboration can be
// tried, broken and measured by themselves.
//
//   model  "bowl" (4,096 parameters), "bowl-N" (1 <= N <= 16,777,216)
//   data   "noise", "noise-Nms": each gradient computation takes at least N ms, asleep
//
//   loss of sample c at p: ½ mean over k of (p[k] - goal[k])² ; its gradient times N:
//   (p[k] - goal[k]) + noise(seed, peer, c, k), noise in [-0.5, 0.5)
//
// goal is a pure function of the seed, noise of (seed, peer, counter): anyone can recompute
// anyone's gradient. accuracy: the fraction of parameters within 0.1 of the goal.
//
// Cost: some ns an element and sample. Errors and threads: training_task.h.

#pragma once
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr std::uint64_t bowl_parameters_max = std::uint64_t{1} << 24;
inline constexpr std::uint64_t noise_milliseconds_max = 60'000;

Result<std::shared_ptr<const TrainingTask>> make_synthetic(const run::TaskConfig& config,
                                                           const TaskOptions& options);

}  // namespace dedloc::tasks
