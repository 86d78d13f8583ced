// The task "torchscript" as the registry knows it. No libtorch here.

#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/template_end.h"
#include "dedloc/tasks/torchscript/script_data.h"
#include "dedloc/tasks/torchscript/script_file.h"
#include "dedloc/tasks/torchscript/torchscript_section.h"
#include "dedloc/tasks/torchscript/torchscript_task.h"

namespace dedloc::tasks {

namespace {

constexpr const char* torchscript_settings = R"(name = "my-run"

[task]
kind = "torchscript"
model = "model.pt"
data = "idx:train-images-idx3-ubyte.gz,train-labels-idx1-ubyte.gz"
seed = 1
precision = "fp32"

[torchscript]
model_hash = "none"
held_out = "idx:t10k-images-idx3-ubyte.gz,t10k-labels-idx1-ubyte.gz"
mean = 0.286
deviation = 0.353
picture_side = 32
text_length = 128

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
)";

TaskKind torchscript_kind() {
    TaskKind kind;
    kind.name = "torchscript";
    kind.sections = {run::section_schema<TorchScriptKeys>(torchscript_section_name)};
    kind.check = [](const run::TaskConfig& task) -> Ok {
        DEDLOC_TRY_VOID(script_hash(task));
        DEDLOC_TRY_VOID(check_script_source(task.data));
        const std::string held_out = torchscript_keys(task).held_out;
        return held_out == no_script_word ? Ok() : check_script_source(held_out);
    };
    kind.run_template.intro =
        "A dedloc run: a model that PyTorch wrote with "
        "torch.jit.script(model).save(\"model.pt\").\n"
        "Only the host needs the file; peers get it by its hash. docs/torchscript.md";
    kind.run_template.settings =
        with_end(torchscript_settings, {.quorum_timeout = "10s", .evaluate_every = 10});
    kind.run_template.comments = {
        {"task.model", "a file in --data, or where dedloc is called"},
        {"task.data", "below --data; or \"npy:x.npy,y.npy\", \"pictures:train\", \"text:a.txt\""},
    };
    kind.run_template.local_example =
        "batch = 64\n[local.optimizer]\nkind = \"adamw\"\n"
        "[local.schedule]\npeak = 0.001\n";
#if DEDLOC_WITH_TORCH
    kind.make = make_torchscript;
#endif
    kind.is_undecided = [](const run::TaskConfig& task) {
        return torchscript_keys(task).model_hash == no_script_word;
    };
    kind.own_data = [](const run::TaskConfig& task) { return task.data; };
    kind.inherit = inherit_script;
    kind.missing_files = {missing_script};
    kind.keep_file = keep_script;
    return kind;
}

}  // namespace
}  // namespace dedloc::tasks

DEDLOC_TASK(torchscript, dedloc::tasks::torchscript_kind());
