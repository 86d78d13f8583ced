// Where a run's TorchScript file is: named by the host in its data folder (or where dedloc was
// called), then known to everybody by its hash, and kept in the user's cache. No libtorch.
//
// Thread: any. Blocks. Errors: not_found, bad_input (a hash that is none), local_fault.

#pragma once
#include <optional>

#include "dedloc/base/bytes.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::tasks {

// nullopt: the host decides. bad_input: it is no hash.
Result<std::optional<Digest>> script_hash(const run::TaskConfig& task);
// The file itself; with a hash it has that hash.
Result<Bytes> find_script_file(const run::TaskConfig& task, const TaskOptions& options);

// For TaskKind.
Result<std::optional<MissingFile>> missing_script(const run::TaskConfig& task,
                                                  const TaskOptions& options);
Ok keep_script(const MissingFile& missing, ByteView file);
Ok inherit_script(run::TaskConfig& task, const run::TaskConfig* from);

}  // namespace dedloc::tasks
