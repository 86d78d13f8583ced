// Where the frozen weights of a run with adapters lie on this machine. No libtorch.
//
// Thread: any. Blocks.

#pragma once
#include <optional>
#include <string>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr std::size_t lora_base_bytes_max = std::size_t{16} << 30;
inline constexpr const char* lora_base_words = "base weights";  // MissingFile::what

// Does the run file leave them to the host?
bool leaves_base_open(const run::TaskConfig& task);

Ok keep_lora_base(const Digest& name, ByteView file);
// None: it is not there, or damaged.
std::optional<std::string> lora_base_in_cache(const Digest& name);

// TaskKind::missing_file, for the base alone.
Result<std::optional<MissingFile>> missing_lora_base(const run::TaskConfig& task);

}  // namespace dedloc::tasks
