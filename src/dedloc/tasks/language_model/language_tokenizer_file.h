// Where the tokenizer of a language model's run is: the host's folder of weights, the data folder,
// the cache, the run's peers. No libtorch.
//
// Thread: any. Blocks.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc::tasks {

// The file that goes before others; empty: there is none.
std::string language_tokenizer_here(const run::TaskConfig& task, const TaskOptions& options);

// Checks that this machine may train a tokenizer where it has none. bad_input: the run begins with
// published weights, which know words by the numbers of their own tokenizer.
Ok check_trains_tokenizer(const TaskOptions& options);

// The run's own, which must be here; not_found.
Result<std::shared_ptr<const text::LanguageTokenizer>> known_language_tokenizer(
    const run::TaskConfig& task, const TaskOptions& options);

// TaskKind::missing_files, keep_file.
Result<std::optional<MissingFile>> missing_language_tokenizer(const run::TaskConfig& task,
                                                              const TaskOptions& options);
Ok keep_missing_language_tokenizer(const MissingFile& missing, ByteView file);

}  // namespace dedloc::tasks
