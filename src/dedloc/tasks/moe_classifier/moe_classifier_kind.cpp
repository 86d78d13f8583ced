// The task "moe_classifier" as the registry knows it. No libtorch here.

#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/moe_classifier/moe_classifier.h"
#include "dedloc/tasks/template_end.h"

namespace dedloc::tasks {

namespace {

constexpr const char* moe_settings = R"(name = "my-experts"

[task]
kind = "moe_classifier"
model = "moe_mlp"
data = "fashion-mnist"
seed = 1
precision = "fp32"

[moe_classifier]
width = 128

[experts]
name = "ffn"
grid = "4x4"
hidden = 512
best = 4
at_least = 1
update_batch = 1024
keepers = 2
rate = 0.001

[batch]
target = 512
micro = 128

[optimizer]
kind = "adamw"
weight_decay = 0.0
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-8
gradient_norm_max = 0.0

[schedule]
kind = "constant"
peak = 0.001
warmup_steps = 0
total_steps = 0
final_fraction = 0.0
)";

TaskKind moe_classifier_kind() {
    TaskKind kind;
    kind.name = "moe_classifier";
    kind.sections = {run::section_schema<MoeKeys>(moe_section_name),
                     run::section_schema<ExpertKeys>(experts_section_name)};
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(expert_grid(task));
        return {};
    };
    kind.run_template.intro =
        "A dedloc run whose experts live on other machines: `dedloc host` this file, lend machines "
        "with\n`dedloc serve JOIN_STRING`, and train with `dedloc join JOIN_STRING`.";
    kind.run_template.settings = with_end(moe_settings, {.quorum_timeout = "10s"});
    kind.run_template.comments = {
        {"task.data", "Debian package dataset-fashion-mnist"},
        {"experts", "docs/experts.md"},
    };
#if DEDLOC_WITH_TORCH
    kind.make = make_moe_classifier;
    kind.experts = torch_experts;
#else
    kind.experts = [](const run::TaskConfig& task, const TaskOptions&) {
        return run_experts(task, run::keys_of<MoeKeys>(task, moe_section_name).width);
    };
#endif
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(moe_classifier, dedloc::tasks::moe_classifier_kind());
