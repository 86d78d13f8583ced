// The task "albert" as the registry knows it. No libtorch here.

#include <utility>

#include "dedloc/tasks/albert/albert_section.h"
#include "dedloc/tasks/albert/albert_task.h"
#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/template_end.h"
#include "dedloc/tasks/text_section.h"

namespace dedloc::tasks {

Result<AlbertConfig> albert_sizes(const run::TaskConfig& task) {
    auto sizes = run::keys_of<AlbertConfig>(task, albert_section_name);
    sizes.xl = task.model == "albert_xl";
    DEDLOC_TRY_VOID(check(sizes));
    const TextKeys text = text_keys(task);
    if (std::cmp_greater(text.columns_max(), sizes.positions))
        return make_error(ErrorKind::bad_input,
                          "text.length: {} tokens (padded to {}) do not fit albert.positions = {}",
                          text.length,
                          text.columns_max(),
                          sizes.positions);
    return sizes;
}

namespace {

constexpr const char* albert_settings = R"(name = "my-run"

[task]
kind = "albert"
model = "albert"
data = "kjv"
seed = 1
precision = "fp32"

[albert]
vocabulary = 30000
embedding = 128
hidden = 1024
layers = 24
heads = 16
feed_forward = 4096
positions = 512
dropout = 0.0
attention_dropout = 0.0
classifier_dropout = 0.1

[text]
tokenizer = "vocabulary=8192&normalization=nmt_nfkc_cf&coverage=1"
tokenizer_hash = "none"
corpus_hash = "none"
length = 512
pad_multiple = 8
masked = 0.15
masked_as_mask = 0.8
masked_as_random = 0.1
held_out = 0.02
held_out_samples = 256
window_samples = 4096

[batch]
target = 4096
micro = "auto"

[optimizer]
kind = "lamb"
weight_decay = 0.01
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-6
norm_clamp = 10000.0
gradient_norm_max = 1.0

[schedule]
kind = "linear"
peak = 0.00176
warmup_steps = 5000
total_steps = 125000
final_fraction = 0.0
)";

// A model that a laptop without a graphics card trains.
std::string small_albert_settings(std::string_view kind, std::string_view experts = {}) {
    return fmt::format(R"(name = "my-run"

[task]
kind = "{}"
model = "albert"
data = "kjv"
seed = 1
precision = "fp32"

[albert]
vocabulary = 4096
embedding = 64
hidden = 128
layers = 4
heads = 4
feed_forward = 512
positions = 64
dropout = 0.0
attention_dropout = 0.0
classifier_dropout = 0.0

[text]
tokenizer = "vocabulary=4096&normalization=nmt_nfkc_cf&coverage=1"
tokenizer_hash = "none"
corpus_hash = "none"
length = 64
pad_multiple = 8
masked = 0.15
masked_as_mask = 0.8
masked_as_random = 0.1
held_out = 0.02
held_out_samples = 256
window_samples = 4096

{}[batch]
target = 128
micro = 32

[optimizer]
kind = "lamb"
weight_decay = 0.01
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-6
norm_clamp = 10000.0
gradient_norm_max = 1.0

[schedule]
kind = "linear"
peak = 0.003
warmup_steps = 100
total_steps = 5000
final_fraction = 0.0
)",
                       kind,
                       experts);
}

constexpr std::string_view experts_settings = R"([experts]
name = "ffn"
grid = "4x4"
hidden = 512
best = 2
at_least = 1
update_batch = 4096
keepers = 2
rate = 0.001

)";

RunTemplate albert_template() {
    RunTemplate result;
    result.intro =
        "A dedloc run: ALBERT learns from text, by masked words and the order of sentences.\n"
        "`dedloc check` it after a change: memory, samples, time of a round. `--size small` "
        "writes\n"
        "one for laptops.";
    result.settings = with_end(albert_settings, {.steps = 125000});
    result.sizes = {
        {"small",
         with_end(small_albert_settings("albert"), {.steps = 5000, .evaluate_every = 50})}};
    result.comments = {
        {"task.model",
         "sizes: [albert]; \"albert_xl\": a gated wide layer and rotary positions, as in "
         "examples/sahajbert_xl.toml"},
        {"task.data",
         "the King James Bible, Debian package bible-kjv. Or, below --data: \"text:books\", "
         "\"jsonl:oscar?weight=0.77, text:wiki?weight=0.23\""},
        {"albert", "ALBERT-large. Base: hidden 768, layers 12, heads 12, feed_forward 3072"},
        {"text", "see `dedloc tokenizer train --help`"},
        {"stop.accuracy", "fraction of masked words guessed right, on held-out text"},
        {"evaluate.every", "global steps between measurements on held-out text"},
    };
    result.local_example =
        "batch = 32\n[local.optimizer]\nkind = \"adamw\"\n"
        "[local.schedule]\npeak = 0.0004\n";
    return result;
}

TaskKind albert_kind() {
    TaskKind kind;
    kind.name = "albert";
    kind.sections = {run::section_schema<AlbertConfig>(albert_section_name),
                     run::section_schema<TextKeys>(text_section_name)};
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(albert_sizes(task));
        DEDLOC_TRY_VOID(text_config(task));
        return {};
    };
    kind.run_template = albert_template();
#if DEDLOC_WITH_TORCH
    kind.make = make_albert;
#endif
    kind.vector_count = [](const run::TaskConfig& task) -> std::optional<std::uint64_t> {
        const auto sizes = albert_sizes(task);
        if (!sizes) return std::nullopt;
        return static_cast<std::uint64_t>(parameters_count(*sizes));
    };
    kind.is_undecided = leaves_tokenizer_open;
    kind.own_data = own_text;
    kind.inherit = inherit_tokenizer;
    kind.missing_files = {missing_tokenizer};
    kind.keep_file = keep_missing_tokenizer;
    return kind;
}

// ALBERT whose feed-forward layer is a grid of experts at other machines.
TaskKind moe_albert_kind() {
    TaskKind kind = albert_kind();
    kind.name = moe_albert_kind_name;
    kind.sections.push_back(run::section_schema<ExpertKeys>(experts_section_name));
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(albert_sizes(task));
        DEDLOC_TRY_VOID(text_config(task));
        DEDLOC_TRY_VOID(expert_grid(task));
        return {};
    };
    kind.run_template.intro =
        "A dedloc run: a small ALBERT whose feed-forward layer is a grid of experts at machines "
        "lent by\n`dedloc serve JOIN_STRING` (docs/experts.md).";
    kind.run_template.settings =
        with_end(small_albert_settings(moe_albert_kind_name, experts_settings),
                 {.steps = 5000, .evaluate_every = 50});
    kind.run_template.sizes.clear();
    kind.run_template.local_example.clear();
    kind.run_template.comments["albert"] = "feed_forward is that of a model without experts";
    kind.vector_count = nullptr;
#if DEDLOC_WITH_TORCH
    kind.experts = albert_torch_experts;
#else
    kind.experts = [](const run::TaskConfig& task, const TaskOptions&) -> Result<RunExperts> {
        DEDLOC_TRY(const AlbertConfig sizes, albert_sizes(task));
        return run_experts(task, static_cast<std::uint64_t>(sizes.hidden));
    };
#endif
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(moe_albert, dedloc::tasks::moe_albert_kind());
DEDLOC_TASK(albert, dedloc::tasks::albert_kind());
