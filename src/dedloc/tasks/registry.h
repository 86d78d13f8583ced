// The kinds of tasks that this program knows. A task is one folder, tasks/<name>/ (or a folder of a
// program of your own): it describes itself in one TaskKind and registers that by one line,
//
//   DEDLOC_TASK(vision_classifier, vision_classifier_kind());
//
// and whatever links the folder's library knows it: the run file with its sections, `dedloc init`,
// `check`, `host`, `join`, `eval`, `export`. docs/write-a-task.md shows a small one.
//
// A task's libtorch part stays out of the source with that line: aggregators and observers are
// built without it and still read, compare and hash the run files of tasks that they cannot
// compute.
//
// Thread: registration before main(); then any.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/experts/backend.h"
#include "dedloc/run/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

// A run file to start from, as `dedloc init` writes it with a comment beside each key.
struct RunTemplate {
    std::string intro;                           // comment lines above everything, without #
    std::string settings;                        // the run file, bare
    std::map<std::string, std::string> sizes{};  // others of the same task, for init --size NAME
    // By key ("task.model"): in place of what is said of that key elsewhere.
    std::map<std::string, std::string> comments{};
    // The example of [local] in the comment that explains local updates; empty: it is left out.
    std::string local_example{};
};

using MakeTask = Result<std::shared_ptr<const TrainingTask>> (*)(const run::TaskConfig&,
                                                                 const TaskOptions&);

// The experts that a run's model calls, for the machines that serve them.
struct RunExperts {
    experts::ExpertGrid grid;
    experts::ExpertFactory factory;
    std::uint64_t bytes_of_one = 0;      // in memory
    std::uint64_t parameters_bytes = 0;  // of them
    std::uint64_t work_bytes = 0;        // to compute the largest batch, estimated
    std::size_t keepers = 2;
    std::size_t update_batch = 4096;  // rows
};

// None: the file is on this machine, or the run has none.
using FindMissing =
    std::function<Result<std::optional<MissingFile>>(const run::TaskConfig&, const TaskOptions&)>;

struct TaskKind {
    std::string name;                            // task.kind
    std::vector<run::SectionSchema> sections{};  // of the run file
    run::CheckTask check{};                      // of what no single key's rule can say
    RunTemplate run_template{};
    // A run file without a section [task] trains this; of one task at most.
    std::optional<run::TaskConfig> default_config{};
    MakeTask make = nullptr;   // null: this build cannot compute it
    bool writes_text = false;  // for prompts, instead of drawing

    // The experts that `dedloc serve` lends a machine to. Null: the task has none.
    std::function<Result<RunExperts>(const run::TaskConfig&, const TaskOptions&)> experts{};

    // The bare run file of a run that begins with the weights of a folder (`init --weights`). Null:
    // the task reads none.
    std::function<Result<std::string>(const std::string& folder)> settings_for_weights{};

    // Numbers in the vector that is averaged, from the run file alone. Null: the task has to be
    // made to know.
    std::function<std::optional<std::uint64_t>(const run::TaskConfig&)> vector_count{};
    // Does the run file leave something to the host's machine (TrainingTask::decided_config)?
    std::function<bool(const run::TaskConfig&)> is_undecided{};
    // Data that everybody who trains needs in a folder of their own, for --data; empty: none.
    std::function<std::string(const run::TaskConfig&)> own_data{};
    // Makes what a new run leaves open equal to the run that its model comes from (`host --from`).
    // `from` is null where that run's file cannot be read. bad_input: they exclude each other.
    std::function<Ok(run::TaskConfig& task, const run::TaskConfig* from)> inherit{};
    std::vector<FindMissing> missing_files{};  // one for each file that peers may have to give
    std::function<Ok(const MissingFile& missing, ByteView file)> keep_file{};
};

// True, so that it can initialise a variable. A kind is registered once.
bool register_task(TaskKind kind);
// Null: nobody registered it.
const TaskKind* find_task(std::string_view kind);
// Whether the task's model answers prompts with text (TaskKind::writes_text). No: it draws, or
// answers none.
bool writes_text(const run::TaskConfig& config);

}  // namespace dedloc::tasks

// The variable's name has no namespace: the linker is told to look for it, or a program that names
// nothing of the folder would be built without it (cmake/DedlocTask.cmake).
#define DEDLOC_TASK(name, kind)                                         \
    extern "C" {                                                        \
    extern const bool dedloc_task_##name;                               \
    const bool dedloc_task_##name = dedloc::tasks::register_task(kind); \
    }                                                                   \
    static_assert(true, "a semicolon follows")
