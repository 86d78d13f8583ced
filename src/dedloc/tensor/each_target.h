// For tests and measurements: one body for every SIMD target that was compiled and that this CPU
// has, from the widest to the plainest.
//
// Thread: not while other threads compute; the choice is the whole process's.

#pragma once
#include <cstdint>
#include <hwy/highway.h>

namespace dedloc::tensor {

// Calls body(name of the target). Returns how many there were, at least 1.
template <typename Body>
int for_each_target(Body body) {
    hwy::SetSupportedTargetsForTest(0);
    const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    int targets_count = 0;
    for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
        const std::int64_t target = rest & -rest;
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        body(hwy::TargetName(target));
        ++targets_count;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return targets_count;
}

}  // namespace dedloc::tensor
