// The task of simulated runs that name none: it is hashed into the run, and with it into what
// happens.

#pragma once
#include "dedloc/collab/run_file.h"

namespace dedloc::lab {

inline collab::TaskConfig image_task() {
    return {.kind = "vision_classifier", .model = "small_cnn", .data = "fashion-mnist"};
}

// With this task, and else all defaults.
inline collab::RunFile image_run() {
    collab::RunFile run;
    run.task = image_task();
    return run;
}

}  // namespace dedloc::lab
