// The task "synthetic" as the registry knows it.

#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/synthetic/synthetic.h"

namespace dedloc::tasks {

namespace {

TaskKind synthetic_kind() {
    TaskKind kind;
    kind.name = "synthetic";
    kind.run_template.intro =
        "A dedloc run without a model: a bowl whose lowest point is found with noisy gradients.\n"
        "It starts in milliseconds and needs no data; for trying out the network.\n"
        "`dedloc check` it after a change.";
    kind.run_template.settings = R"(name = "my-run"

[task]
kind = "synthetic"
model = "bowl-4096"
data = "noise-20ms"
seed = 1

[batch]
target = 64
micro = 4

[schedule]
peak = 0.01

[stop]
steps = 1000

[checkpoint]
every = 100
)";
    kind.run_template.comments = {
        {"task.model", "so many parameters"},
        {"task.data", "what one gradient takes, asleep; or \"noise\": as fast as it goes"},
    };
    kind.make = make_synthetic;
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(synthetic, dedloc::tasks::synthetic_kind());
