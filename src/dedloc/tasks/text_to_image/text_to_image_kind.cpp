// The task "text_to_image" as the registry knows it. No libtorch here.

#include "dedloc/tasks/picture_folder.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/template_end.h"
#include "dedloc/tasks/text_to_image/codes_store.h"
#include "dedloc/tasks/text_to_image/text_to_image_section.h"
#include "dedloc/tasks/text_to_image/text_to_image_task.h"

namespace dedloc::tasks {
namespace {

// Emoji of 16 × 16 pixels: a few laptops learn them in less than an hour.
constexpr const char* small_settings = R"(name = "my-pictures"

[task]
kind = "text_to_image"
model = "transformer"
data = "captions"
seed = 1
precision = "fp32"

[text_to_image]
width = 96
layers = 8
heads = 4
head_width = 24
shared_layers = 4
convolution_side = 3
reversible = true
words = 2048
text_length = 12

[pictures]
side = 16
codes_side = 8
codes = 128
codes_width = 48
codes_steps = 600
held_out = 0.02
codes_hash = "none"
pictures_hash = "none"

[batch]
target = 64
micro = 8

[optimizer]
kind = "lamb"
weight_decay = 0.0
beta1 = 0.9
beta2 = 0.96
epsilon = 1e-6
norm_clamp = 10000.0
debias = true
moments_8bit = true
gradient_norm_max = 4.0

[schedule]
kind = "linear"
peak = 0.012
warmup_steps = 20
total_steps = 1000
final_fraction = 0.0
)";

constexpr const char* published_settings = R"(name = "my-pictures"

[task]
kind = "text_to_image"
model = "transformer"
data = "captions"
seed = 1
precision = "fp32"

[text_to_image]
width = 1024
layers = 64
heads = 16
head_width = 64
shared_layers = 4
convolution_side = 5
reversible = true
words = 32100
text_length = 256

[pictures]
side = 256
codes_side = 32
codes = 8192
codes_width = 128
codes_steps = 20000
held_out = 0.0002
codes_hash = "none"
pictures_hash = "none"

[batch]
target = 4096
micro = 1

[optimizer]
kind = "lamb"
weight_decay = 0.045
beta1 = 0.9
beta2 = 0.96
epsilon = 1e-6
norm_clamp = 10000.0
debias = false
moments_8bit = true
gradient_norm_max = 4.0

[schedule]
kind = "linear"
peak = 0.0025
warmup_steps = 3125
total_steps = 31250
final_fraction = 0.0
)";

RunTemplate text_to_image_template() {
    RunTemplate result;
    result.intro =
        "A dedloc run: a transformer learns to draw pictures for captions, as in \"Training\n"
        "Transformers Together\". Pictures: `dedloc data emoji FOLDER`, or a folder of your own\n"
        "with captions.jsonl; everybody who trains gives it with --data. `--size published`\n"
        "writes the sizes of the publication.";
    result.settings = with_end(
        small_settings,
        {.codec = "adaptive", .delayed = true, .checkpoint_every = 100, .evaluate_every = 100});
    result.sizes = {{"published",
                     with_end(published_settings,
                              {.codec = "adaptive",
                               .round_deadline_max = "180s",
                               .delayed = true,
                               .steps = 31250,
                               .evaluate_every = 0})}};
    result.comments = {
        {"task.model", "sizes: [text_to_image]"},
        {"task.data", "of --data: pictures with captions.jsonl (docs/images.md)"},
        {"optimizer.moments_8bit", "2 bytes a parameter instead of 8 (docs/images.md)"},
        {"stop.accuracy", "this task has none"},
        {"evaluate.every", "global steps between measurements on held-out captions"},
    };
    return result;
}

TaskKind text_to_image_kind() {
    TaskKind kind;
    kind.name = "text_to_image";
    kind.sections = {run::section_schema<TextToImageConfig>(text_to_image_section_name),
                     run::section_schema<PicturesKeys>(pictures_section_name)};
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(text_to_image_sizes(task));
        DEDLOC_TRY_VOID(image_codes_sizes(task));
        DEDLOC_TRY_VOID(codes_hash_of(task));
        return check_pictures_key("pictures.pictures_hash", pictures_keys(task).pictures_hash);
    };
    kind.run_template = text_to_image_template();
#if DEDLOC_WITH_TORCH
    kind.make = make_text_to_image;
#endif
    kind.vector_count = [](const run::TaskConfig& task) -> std::optional<std::uint64_t> {
        const auto sizes = text_to_image_sizes(task);
        if (!sizes) return std::nullopt;
        return static_cast<std::uint64_t>(sizes->parameters_count());
    };
    kind.is_undecided = leaves_codes_open;
    kind.own_data = [](const run::TaskConfig&) -> std::string {
        return "pictures with captions.jsonl";
    };
    kind.inherit = inherit_codes;
    kind.missing_files = {missing_codes};
    kind.keep_file = keep_missing_codes;
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(text_to_image, dedloc::tasks::text_to_image_kind());
