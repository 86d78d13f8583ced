// The task of simulated runs that name none: it is hashed into the run, and with it into what
// happens.

#pragma once
#include "dedloc/run/run_file.h"

namespace dedloc::lab {

inline run::TaskConfig image_task() {
    return {.kind = "vision_classifier", .model = "small_cnn", .data = "fashion-mnist"};
}

// With this task, and else all defaults.
inline run::RunFile image_run() {
    run::RunFile run;
    run.task = image_task();
    return run;
}

}  // namespace dedloc::lab
