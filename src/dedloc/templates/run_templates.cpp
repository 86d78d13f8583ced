#include "dedloc/templates/run_templates.h"

#include <array>
#include <fmt/ranges.h>
#include <utility>
#include <vector>

#include "dedloc/base/columns.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/templates/home_settings.h"

namespace dedloc::templates {
namespace {

using tasks::RunTemplate;
using tasks::TaskKind;

constexpr std::size_t comment_column = 25;
constexpr std::size_t page_columns = 100;
constexpr std::string_view small_size = "small";

// Comments for the keys that every task has; tasks say those of their own.
constexpr std::pair<std::string_view, std::string_view> common_comments[] = {
    {"task.seed", "starting parameters and order of samples"},
    {"task.precision",
     "\"fp32\"; \"bf16\": mixed, faster on GPUs and on CPUs with AMX or AVX-512 BF16, slower "
     "elsewhere; \"fp16\": mixed, for older GPUs, with a loss scale; no CPU can join. Parameters "
     "and "
     "averages stay fp32"},
    {"batch.target", "samples of all peers together for one global step"},
    {"batch.micro",
     "samples of one gradient computation of one peer; \"auto\": each finds its own by measuring "
     "when it starts"},
    {"optimizer.kind", "\"sgd\", \"adamw\", \"lamb\" or \"muon\" (matrices; adamw for the rest)"},
    {"optimizer.momentum", "sgd, muon"},
    {"optimizer.gradient_norm_max", "clips the averaged gradient; 0: off"},
    {"schedule.kind",
     "\"constant\"; \"linear\", \"cosine\": fall to final_fraction at total_steps; \"step\": times "
     "decay_factor after every decay_every steps"},
    {"schedule.peak", "the learning rate after the warm-up"},
    {"schedule.total_steps", "linear and cosine need it"},
    {"averaging.codec",
     "what travels: \"fp16\"; \"fp32\": twice the bytes and no rounding; \"adaptive\": large "
     "tensors in 8 bit, half the bytes; \"sparse\" and \"low_rank\": contributions 90 and "
     "60 times smaller than in fp16, for slow lines (docs/few-bytes.md)"},
    {"averaging.gather_max",
     "sparse: what more trainers than that bring is added by owners, so that bytes no longer grow "
     "with them"},
    {"averaging.round_deadline_min",
     "nobody is waited for longer than this when rounds are quick …"},
    {"averaging.round_deadline_max", "… or than this, however slow they are"},
    {"averaging.quorum_timeout",
     "when most voters are gone for good, the others go on after this time"},
    {"averaging.delayed",
     "true: computing goes on while a step is averaged and made; what is computed meanwhile goes "
     "into the next step, one step stale"},
    {"averaging.leave_out_slow",
     "rounds do without lines that are much too slow for what they bring"},
    {"stop", "the run ends when one of these is reached; 0: no such condition"},
    {"stop.accuracy", "fraction on the held-out data, e.g. 0.9"},
    {"checkpoint.every", "global steps, 0: never; each peer keeps its newest three"},
    {"evaluate.every", "global steps between measurements of accuracy; 0: never"},
    {"local", "steps of each peer's own between two rounds (docs/few-bytes.md)"},
    {"local.batch",
     "samples of one such step; batch.target is this, times steps, times peers: `dedloc check FILE "
     "--peers N`"},
    {"local.fragments",
     "a round moves one of so many fragments of the model, in turn, and so many times fewer bytes"},
    {"local.schedule", "as [schedule], also in global steps"},
};

constexpr std::string_view local_intro =
    "# Local updates (DiLoCo), for slow lines: peers make steps of their own, and only the way "
    "they "
    "have\n# gone is averaged. [optimizer] and [schedule] are then those of the outer step; try "
    "sgd "
    "with\n# momentum 0.9, nesterov = true and peak 0.7. For an average every N inner steps of "
    "each "
    "peer take\n# batch.target = N * local.batch * peers. docs/few-bytes.md\n";
constexpr std::pair<std::string_view, std::string_view> local_comments[] = {
    {"batch", "samples of one inner step of one peer; a multiple of batch.micro"},
    {"[local.optimizer]", "same keys as [optimizer]"},
    {"[local.schedule]", "same keys as [schedule], also in global steps"},
};
constexpr std::string_view norm_max_line =
    "# norm_max = 1e6         # longer mean gradients are refused (docs/security.md); 0: any\n";
constexpr std::string_view local_norm_max_line =
    "# norm_max = 1e6         # longer contributions are refused; say far less: "
    "docs/few-bytes.md\n";
constexpr std::string_view averaging_more =
    "# group_max = 64         # more trainers than that average in a grid of groups\n";

constexpr std::string_view demo =
    R"(# The run of ./demo.sh: a small convolutional network learns to tell clothes apart.
name = "demo"

[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
seed = 1

[batch]
target = 1024
micro = 64

[optimizer]
kind = "adamw"
weight_decay = 0.01

[schedule]
kind = "cosine"
peak = 0.01
warmup_steps = 25
total_steps = 300
final_fraction = 0.02

[averaging]
codec = "fp16"
round_deadline_min = "1s"
round_deadline_max = "10s"
quorum_timeout = "30s"

[stop]
steps = 300

[checkpoint]
every = 50

[evaluate]
every = 20
)";

// No task of this program's: the loop and the model are somebody's own.
tasks::TaskKind own_loop() {
    tasks::TaskKind kind;
    kind.name = "own_loop";
    kind.run_template.intro =
        "A run for training loops of your own: dedloc.host(\"own_loop.toml\") in Python\n"
        "(docs/python.md), or dedloc_join in C.";
    kind.run_template.settings = R"(name = "my run"

[task]
kind = "own_loop"

[batch]
target = 1024
micro = 1

[optimizer]
kind = "adamw"
weight_decay = 0.01
gradient_norm_max = 1

[schedule]
kind = "cosine"
peak = 0.001
warmup_steps = 100
total_steps = 10000
final_fraction = 0.1

[averaging]
codec = "fp16"

[stop]
steps = 10000

[checkpoint]
every = 50
)";
    kind.run_template.comments = {
        {"task.kind", "the model is the program's"},
        {"batch.micro", "the loop makes its batches itself; [local] batch is a multiple of it"}};
    kind.run_template.local_example = R"(batch = 64
[local.optimizer]
kind = "adamw"
[local.schedule]
peak = 0.001
)";
    return kind;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

using base::columns;

// The line with its comment beside it, which goes on below where it is long.
std::string commented(std::string_view line, std::string_view comment) {
    if (comment.empty()) return std::string(line) + "\n";
    std::string text(line);
    std::size_t at = columns(line);
    const auto new_line = [&] {
        if (at < comment_column)
            text.append(comment_column - at, ' ');
        else
            text += "  ";
        text += "#";
        at = std::max(at + 2, comment_column) + 1;
    };
    new_line();
    while (!comment.empty()) {
        const std::size_t end = std::min(comment.find(' '), comment.size());
        const std::string_view word = comment.substr(0, end);
        comment.remove_prefix(std::min(end + 1, comment.size()));
        if (at + 1 + columns(word) > page_columns) {
            text += "\n";
            at = 0;
            new_line();
        }
        text += " " + std::string(word);
        at += 1 + columns(word);
    }
    return text + "\n";
}

std::string_view find_comment(std::span<const std::pair<std::string_view, std::string_view>> list,
                              std::string_view key) {
    for (const auto& [name, comment] : list)
        if (name == key) return comment;
    return {};
}

std::string_view schema_comment(const TaskKind& kind, std::string_view key) {
    for (const run::SectionSchema& section : kind.sections)
        for (const auto& field : section.fields)
            if (key == section.name + "." + field.key) return field.comment;
    return {};
}

std::string_view comment_of(const TaskKind& kind, const std::string& key) {
    const auto own = kind.run_template.comments.find(key);
    if (own != kind.run_template.comments.end()) return own->second;
    const std::string_view common = find_comment(common_comments, key);
    return common.empty() ? schema_comment(kind, key) : common;
}

// "batch = 64" -> "batch"; "[local]" as it is.
std::string_view key_of(std::string_view line) {
    return line.starts_with('[') ? line : line.substr(0, line.find(' '));
}

std::string local_block(const RunTemplate& source) {
    if (source.local_example.empty()) return {};
    std::string text(local_intro);
    text += "# [local]\n";
    for (const std::string_view line : lines_of(source.local_example))
        text += commented("# " + std::string(line), find_comment(local_comments, key_of(line)));
    return text + "\n";
}

std::string written(const TaskKind& kind, std::string_view settings) {
    const RunTemplate& source = kind.run_template;
    const bool has_local = settings.find("\n[local]") != std::string_view::npos;
    std::string text;
    for (const std::string_view line : lines_of(source.intro))
        text += "# " + std::string(line) + "\n";
    std::string section;
    for (const std::string_view line : lines_of(settings)) {
        if (line.empty()) {
            if (section == "averaging") {
                text += has_local ? local_norm_max_line : norm_max_line;
                text += averaging_more;
            }
            text += "\n";
        } else if (line.starts_with('[')) {
            section = line.substr(1, line.find(']') - 1);
            if (section == "averaging" && !has_local) text += local_block(source);
            text += commented(line, comment_of(kind, section));
        } else {
            const std::string above = section.empty() ? "" : section + ".";
            text += commented(line, comment_of(kind, above + std::string(key_of(line))));
        }
    }
    return text;
}

Result<std::string> written_for(const TaskKind& kind,
                                const std::string& settings,
                                std::size_t homes) {
    if (homes == 0) return written(kind, settings);
    DEDLOC_TRY(const std::string at_home,
               settings_for_home(settings, kind.run_template.local_example, homes));
    return written(kind, at_home);
}

Result<const TaskKind*> kind_with_template(std::string_view task) {
    static const TaskKind own = own_loop();
    const TaskKind* kind = task == own.name ? &own : tasks::find_task(task);
    if (kind && !kind->run_template.settings.empty()) return kind;
    return make_error(ErrorKind::bad_input,
                      "there is no task '{}'; known: {}, {}",
                      task.substr(0, 64),
                      fmt::join(tasks::task_kinds(), ", "),
                      own.name);
}

}  // namespace

Result<std::string> run_template_for_weights(std::string_view task,
                                             const std::string& folder,
                                             std::size_t homes) {
    DEDLOC_TRY(const TaskKind* kind, kind_with_template(task));
    if (!kind->settings_for_weights)
        return make_error(ErrorKind::bad_input,
                          "the task {} does not begin with published weights; language_model does",
                          task);
    DEDLOC_TRY(const std::string settings, kind->settings_for_weights(folder));
    return written_for(*kind, settings, homes);
}

Result<std::string> run_template(std::string_view task, std::string_view size, std::size_t homes) {
    DEDLOC_TRY(const TaskKind* kind, kind_with_template(task));
    const RunTemplate& source = kind->run_template;
    if (size.empty()) return written_for(*kind, source.settings, homes);
    const auto found = source.sizes.find(std::string(size));
    if (found != source.sizes.end()) return written_for(*kind, found->second, homes);
    // A size that a laptop trains is what one starts from anyhow, with most tasks.
    if (size == small_size) return written_for(*kind, source.settings, homes);
    std::vector<std::string> known{std::string(small_size)};
    for (const auto& [name, settings] : source.sizes)
        if (name != small_size) known.push_back(name);
    return make_error(ErrorKind::bad_input,
                      "the task {} has no size '{}'; known: {}",
                      task,
                      size.substr(0, 64),
                      fmt::join(known, ", "));
}

std::string_view demo_run_file() { return demo; }

}  // namespace dedloc::templates
