// The file of a run's image codes on this machine: in the user's cache, by its hash. A run file
// names it, its host makes it, others fetch it from their peers. No libtorch.
//
// Thread: any. Blocks. Errors: not_found; conflict: another file than was wanted; local_fault.

#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

// Convolutions of [pictures].codes_width 256 and a book of 65,536 codes take 30 MB.
inline constexpr std::size_t codes_file_bytes_max = 64u << 20;

Result<Bytes> kept_codes(const Digest& hash);
Ok keep_codes(const Digest& hash, ByteView file);

// Made on this machine from these pictures by this recipe, which `key` hashes; not_found: not yet.
Result<Bytes> trained_codes(const Digest& key);
// Calls `train` unless another process did while this one waited for it, and keeps the file.
Result<Bytes> train_codes(const Digest& key, const std::function<Result<Bytes>()>& train);

// TaskKind::missing_files, keep_file, is_undecided and inherit.
Result<std::optional<MissingFile>> missing_codes(const run::TaskConfig& task,
                                                 const TaskOptions& options);
Ok keep_missing_codes(const MissingFile& missing, ByteView file);
bool leaves_codes_open(const run::TaskConfig& task);
Ok inherit_codes(run::TaskConfig& task, const run::TaskConfig* from);

}  // namespace dedloc::tasks
