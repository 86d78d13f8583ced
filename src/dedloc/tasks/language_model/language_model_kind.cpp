// The task "language_model" as the registry knows it. No libtorch here.

#include "dedloc/base/file.h"
#include "dedloc/tasks/data_section.h"
#include "dedloc/tasks/language_model/decoder_json.h"
#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/tasks/language_model/language_model_task.h"
#include "dedloc/tasks/language_model/language_tokenizer_file.h"
#include "dedloc/tasks/language_model/lora_base_file.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/template_end.h"

namespace dedloc::tasks {

namespace {

struct TemplateSizes {
    DecoderConfig model{};
    std::string tokenizer = "kind=byte_bpe&vocabulary=8192";
    std::uint64_t length = 1024;
    std::uint64_t held_out_samples = 64;
    std::uint64_t window_samples = 1024;
    std::uint64_t target = 512;
    std::string micro = "\"auto\"";
    double peak = 6e-4;
    std::uint64_t warmup_steps = 700;
    TemplateEnd end{};
};

std::string model_settings(const TemplateSizes& of) {
    const DecoderConfig& keys = of.model;
    return fmt::format(R"(name = "my-run"

[task]
kind = "language_model"
model = "{}"
data = "kjv"
seed = 1
precision = "fp32"

[language_model]
vocabulary = {}
hidden = {}
layers = {}
heads = {}
key_value_heads = {}
feed_forward = {}
positions = {}
tied = {}
rope_base = {:.1f}
norm_epsilon = {}
recompute = {}
)",
                       keys.family == DecoderFamily::gpt2 ? gpt2_name : llama_name,
                       keys.vocabulary,
                       keys.hidden,
                       keys.layers,
                       keys.heads,
                       keys.key_value_heads,
                       keys.feed_forward,
                       keys.positions,
                       keys.tied,
                       keys.rope_base,
                       keys.norm_epsilon,
                       keys.recompute);
}

std::string settings_of(const TemplateSizes& of) {
    const std::string settings = fmt::format(R"({}
[text]
tokenizer = "{}"
tokenizer_hash = "none"
corpus_hash = "none"
length = {}
held_out = 0.02
held_out_samples = {}
window_samples = {}

[data]
source = "own"
licence = "none"
origin = "none"

[batch]
target = {}
micro = {}

[optimizer]
kind = "adamw"
weight_decay = 0.1
beta1 = 0.9
beta2 = 0.95
epsilon = 1e-8
gradient_norm_max = 1.0

[schedule]
kind = "cosine"
peak = {}
warmup_steps = {}
total_steps = {}
final_fraction = 0.1
)",
                                             model_settings(of),
                                             of.tokenizer,
                                             of.length,
                                             of.held_out_samples,
                                             of.window_samples,
                                             of.target,
                                             of.micro,
                                             of.peak,
                                             of.warmup_steps,
                                             of.end.steps);
    return with_end(settings, of.end);
}

// Minutes on two cores.
TemplateSizes tiny() {
    return {.model = {.family = DecoderFamily::llama,
                      .vocabulary = 2048,
                      .hidden = 128,
                      .layers = 4,
                      .heads = 4,
                      .key_value_heads = 2,
                      .feed_forward = 352,
                      .positions = 256},
            .tokenizer = "kind=byte_bpe&vocabulary=2048",
            .length = 128,
            .window_samples = 512,
            .target = 64,
            .micro = "16",
            .peak = 4e-3,
            .warmup_steps = 30,
            .end = {.steps = 1000, .evaluate_every = 50}};
}

// A laptop without a graphics card, some hours.
TemplateSizes small() {
    return {.model = {.family = DecoderFamily::llama,
                      .vocabulary = 8192,
                      .hidden = 384,
                      .layers = 6,
                      .heads = 6,
                      .key_value_heads = 2,
                      .feed_forward = 1024,
                      .positions = 512},
            .length = 256,
            .target = 256,
            .micro = "8",
            .peak = 1.5e-3,
            .warmup_steps = 100,
            .end = {.steps = 5000, .evaluate_every = 50}};
}

// Radford et al.'s sizes; 124,439,808 and 354,823,168 parameters.
TemplateSizes gpt2_small() {
    return {.tokenizer = "kind=byte_bpe&vocabulary=50257",
            .end = {.round_deadline_max = "180s", .steps = 100'000, .evaluate_every = 100}};
}
TemplateSizes gpt2_medium() {
    TemplateSizes sizes = gpt2_small();
    sizes.model.hidden = 1024;
    sizes.model.layers = 24;
    sizes.model.heads = 16;
    sizes.model.key_value_heads = 16;
    sizes.model.feed_forward = 4096;
    sizes.peak = 3e-4;
    return sizes;
}

// A llama of GPT-2 small's work: 134,515,008 parameters with 49,152 tokens.
TemplateSizes llama_small() {
    TemplateSizes sizes = gpt2_small();
    sizes.model = {.family = DecoderFamily::llama,
                   .vocabulary = 49'152,
                   .hidden = 576,
                   .layers = 30,
                   .heads = 9,
                   .key_value_heads = 3,
                   .feed_forward = 1536,
                   .positions = 2048};
    sizes.tokenizer = "kind=byte_bpe&vocabulary=49152";
    sizes.peak = 1e-3;
    return sizes;
}

RunTemplate language_model_template() {
    RunTemplate result;
    result.intro =
        "A dedloc run: a language model learns to write, token by token (docs/language-model.md).\n"
        "`--size small` writes one for laptops, `gpt2`, `gpt2-medium` and `llama-134m` those of\n"
        "publications; `--weights FOLDER` one that goes on with a model in Hugging Face's format.";
    result.settings = settings_of(tiny());
    result.sizes = {{"tiny", settings_of(tiny())},
                    {"small", settings_of(small())},
                    {"gpt2", settings_of(gpt2_small())},
                    {"gpt2-medium", settings_of(gpt2_medium())},
                    {"llama-134m", settings_of(llama_small())}};
    result.comments = {
        {"task.model", "\"gpt2\" or \"llama\"; sizes: [language_model]"},
        {"task.data",
         "the King James Bible, Debian package bible-kjv. Or, below --data: \"text:books\", "
         "\"jsonl:oscar?weight=0.77, text:wiki?weight=0.23\""},
        {"text", "see `dedloc tokenizer train --help`"},
        {"data.source",
         "\"own\": who joins has a copy; \"run\": the host sends it to those who join, who see "
         "licence and origin before (docs/data.md)"},
        {"stop.accuracy", "fraction of tokens predicted right, on held-out text"},
        {"evaluate.every", "global steps between measurements on held-out text"},
    };
    result.local_example =
        "batch = 16\n[local.optimizer]\nkind = \"adamw\"\n"
        "[local.schedule]\npeak = 0.001\n";
    return result;
}

// The run file of a model in Hugging Face's format, to go on with it.
Result<std::string> settings_for_folder(const std::string& folder) {
    DEDLOC_TRY(const std::string config,
               base::read_file(folder + "/config.json", decoder_json_bytes_max));
    auto sizes = decoder_from_json(config);
    if (!sizes) return sizes.error().with_context(folder);
    TemplateSizes of{.model = *sizes,
                     .target = 256,
                     .peak = 1e-4,
                     .warmup_steps = 50,
                     .end = {.steps = 2000, .evaluate_every = 50}};
    // The run file's own bound; rotary positions need none, and a gpt2's are parameters.
    constexpr std::int64_t positions_max = 8192;
    if (of.model.family == DecoderFamily::llama)
        of.model.positions = std::min(of.model.positions, positions_max);
    of.length = static_cast<std::uint64_t>(std::min<std::int64_t>(of.model.positions, 1024));
    of.tokenizer =
        fmt::format("kind=byte_bpe&vocabulary={}",
                    std::clamp<std::int64_t>(
                        of.model.vocabulary, text::byte_vocabulary_min, text::vocabulary_max));
    return settings_of(of);
}

TaskKind language_model_kind() {
    TaskKind kind;
    kind.name = "language_model";
    kind.sections = {run::section_schema<DecoderConfig>(language_model_section_name),
                     run::section_schema<PackedTextKeys>(text_section_name),
                     run::section_schema<DataKeys>(data_section_name)};
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(decoder_sizes(task));
        DEDLOC_TRY_VOID(language_data_config(task));
        DEDLOC_TRY_VOID(check_data(task));
        return {};
    };
    kind.run_template = language_model_template();
#if DEDLOC_WITH_TORCH
    kind.make = make_language_model;
#endif
    kind.vector_count = [](const run::TaskConfig& task) -> std::optional<std::uint64_t> {
        const auto sizes = decoder_sizes(task);
        if (!sizes) return std::nullopt;
        return static_cast<std::uint64_t>(trained_count(*sizes));
    };
    kind.writes_text = true;
    kind.settings_for_weights = settings_for_folder;
    kind.is_undecided = [](const run::TaskConfig& task) {
        return leaves_tokenizer_open(task) || leaves_catalogue_open(task) || leaves_base_open(task);
    };
    kind.own_data = [](const run::TaskConfig& task) {
        return shares_data(task) ? std::string() : own_text(task);
    };
    kind.inherit = [](run::TaskConfig& task, const run::TaskConfig* from) -> Ok {
        if (!task.section(text_section_name))
            task.set_section(run::section_from(text_section_name, PackedTextKeys()));
        return inherit_tokenizer(task, from);
    };
    kind.missing_files = {missing_language_tokenizer, missing_lora_base, missing_catalogue};
    kind.keep_file = [](const MissingFile& missing, ByteView file) -> Ok {
        if (missing.what == catalogue_words) return keep_missing_catalogue(missing, file);
        if (missing.what == lora_base_words) return keep_lora_base(missing.hash, file);
        return keep_missing_language_tokenizer(missing, file);
    };
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(language_model, dedloc::tasks::language_model_kind());
