// Where the frozen weights of a run with adapters lie on this machine. No libtorch.
//
// Thread: any. Blocks.

#pragma once
#include <optional>

#include "dedloc/base/shared_bytes.h"
#include "dedloc/run/task_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr std::size_t lora_base_bytes_max = std::size_t{16} << 30;
inline constexpr const char* lora_base_words = "base weights";  // MissingFile::what

// Does the run file leave them to the host?
bool leaves_base_open(const run::TaskConfig& task);

Ok keep_lora_base(const Digest& name, ByteView file);
// Returns no bytes where the file is not there, or is damaged.
SharedBytes lora_base_in_cache(const Digest& name);

// The base's part of TaskKind::missing_files.
Result<std::optional<MissingFile>> missing_lora_base(const run::TaskConfig& task,
                                                     const TaskOptions& options);

}  // namespace dedloc::tasks
