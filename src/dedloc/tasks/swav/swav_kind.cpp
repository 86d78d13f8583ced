// The task "swav" as the registry knows it. No libtorch here.

#include "dedloc/run/run_checks.h"
#include "dedloc/tasks/picture_folder.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/swav/swav_section.h"
#include "dedloc/tasks/swav/swav_task.h"
#include "dedloc/tasks/template_end.h"

namespace dedloc::tasks {
namespace {

constexpr const char* swav_settings = R"(name = "my-run"

[task]
kind = "swav"
model = "resnet50"
data = "folder"
seed = 1
precision = "bf16"

[swav]
large_crops = 2
large_side = 224
large_scale_min = 0.14
large_scale_max = 1.0
small_crops = 6
small_side = 96
small_scale_min = 0.05
small_scale_max = 0.14
colour = 0.8
grey = 0.2
blur = 0.5
strength = 1.0
temperature = 0.1
epsilon = 0.03
iterations = 3
prototypes_frozen_until = 39
queue = 0
queue_from = 0
held_out = 0.02
held_out_max = 10000
neighbours = 20
pictures = "none"

[batch]
target = 32768
micro = 64

[optimizer]
kind = "sgd"
momentum = 0.9
weight_decay = 1e-6
larc = true
larc_clip = false
larc_trust = 0.001
larc_epsilon = 1e-8

[schedule]
kind = "cosine"
peak = 2.4
warmup_steps = 500
warmup_start = 0.3
total_steps = 5000
final_fraction = 0.002
)";

// Pictures of 28 × 28 pixels: laptops without a graphics card train it.
constexpr const char* small_swav_settings = R"(name = "my-run"

[task]
kind = "swav"
model = "small"
data = "fashion-mnist"
seed = 1
precision = "fp32"

[swav]
large_crops = 2
large_side = 28
large_scale_min = 0.5
large_scale_max = 1.0
small_crops = 4
small_side = 14
small_scale_min = 0.2
small_scale_max = 0.5
colour = 0.8
grey = 0.2
blur = 0.0
strength = 0.5
temperature = 0.1
epsilon = 0.03
iterations = 3
prototypes_frozen_until = 30
queue = 0
queue_from = 0
held_out = 0.02
held_out_max = 10000
neighbours = 20
pictures = "none"

[batch]
target = 128
micro = 32

[optimizer]
kind = "sgd"
momentum = 0.9
weight_decay = 1e-6
larc = true
larc_clip = false
larc_trust = 0.001
larc_epsilon = 1e-8

[schedule]
kind = "cosine"
peak = 6.0
warmup_steps = 10
warmup_start = 1.0
total_steps = 600
final_fraction = 0.002
)";

RunTemplate swav_template() {
    RunTemplate result;
    result.intro =
        "A dedloc run: SwAV learns from pictures without labels (docs/images.md). As it stands, "
        "DeDLOC's\nrun on ImageNet. `dedloc check` it with --data FOLDER: size, memory, first "
        "loss, "
        "time of a round. `--size small` writes one for laptops.";
    result.settings = with_end(swav_settings, {.steps = 5000});
    result.sizes = {{"small", with_end(small_swav_settings, {.steps = 600})}};
    result.comments = {
        {"task.model", "or \"small\": three convolutions"},
        {"task.data",
         "JPEG and PNG files below --data, in a folder for each class if there are classes; or "
         "\"fashion-mnist\", Debian package dataset-fashion-mnist"},
        {"batch.micro",
         "a number: the samples of a micro-batch are spread over the prototypes together"},
        {"optimizer.larc", "the rate of a layer follows from its norms"},
        {"optimizer.larc_clip", "false: layers' rates multiply the schedule's"},
        {"schedule.warmup_start", "the rate of the first step"},
        {"stop.accuracy", "of nearest neighbours, on held-out pictures"},
        {"evaluate.every", "global steps between measurements on held-out pictures"},
    };
    return result;
}

TaskKind swav_kind() {
    TaskKind kind;
    kind.name = "swav";
    kind.sections = {run::section_schema<SwavKeys>(swav_section_name)};
    kind.check = check_swav;
    run::register_run_check("swav", check_swav_run);
    kind.run_template = swav_template();
#if DEDLOC_WITH_TORCH
    kind.make = make_swav;
#endif
    kind.vector_count = [](const run::TaskConfig& task) -> std::optional<std::uint64_t> {
        const SwavSizes* sizes = find_swav_sizes(task.model);
        if (!sizes) return std::nullopt;
        return sizes->parameters_count(swav_channels(task)) + sizes->buffers_count();
    };
    kind.is_undecided = [](const run::TaskConfig& task) {
        return task.data == swav_folder_data && swav_keys(task).pictures == undecided_pictures;
    };
    kind.own_data = [](const run::TaskConfig& task) {
        return std::string(task.data == swav_folder_data ? "the pictures" : "");
    };
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(swav, dedloc::tasks::swav_kind());
