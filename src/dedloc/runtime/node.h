// A node gets this from the world: passed to constructors, never global. `main` and the simulator
// are the two who fill it in.

#pragma once
#include "dedloc/base/random.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/runtime/task.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::runtime {

struct Node {
    Executor executor;
    Clock& clock;
    Disk& disk;
    Workers& workers;
    Random random;  // copy and fork() for each component
};

}  // namespace dedloc::runtime
