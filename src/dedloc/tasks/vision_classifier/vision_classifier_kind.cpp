// The task "vision_classifier" as the registry knows it. No libtorch here.

#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/template_end.h"
#include "dedloc/tasks/vision_classifier/vision_classifier.h"

namespace dedloc::tasks {

namespace {

RunTemplate vision_classifier_template() {
    RunTemplate result;
    result.intro =
        "A dedloc run: what must be equal on all peers.\n"
        "Comments and order do not matter; what is left out has the value that is shown here, but "
        "for the\nname, which must be there, and [stop]: without it the run ends when its peers "
        "leave.";
    result.settings = with_end(R"(name = "my-run"

[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
seed = 1
precision = "fp32"

[batch]
target = 1024
micro = 64

[optimizer]
kind = "sgd"
momentum = 0.9
weight_decay = 0.0
gradient_norm_max = 0.0

[schedule]
kind = "constant"
peak = 0.1
warmup_steps = 0
total_steps = 0
final_fraction = 0.0
)",
                               {.quorum_timeout = "10s", .evaluate_every = 10});
    result.comments = {
        {"task.model", "or \"mlp\", \"cnn_bn\""},
        {"task.data", "Debian package dataset-fashion-mnist; \"fashion-mnist+flip\" mirrors half"},
    };
    result.local_example =
        "batch = 64\n[local.optimizer]\nkind = \"adamw\"\n"
        "[local.schedule]\npeak = 0.001\n";
    return result;
}

TaskKind vision_classifier_kind() {
    TaskKind kind;
    kind.name = "vision_classifier";
    kind.run_template = vision_classifier_template();
    kind.default_config =
        run::TaskConfig{.kind = "vision_classifier", .model = "small_cnn", .data = "fashion-mnist"};
#if DEDLOC_WITH_TORCH
    kind.make = make_vision_classifier;
#endif
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(vision_classifier, dedloc::tasks::vision_classifier_kind());
