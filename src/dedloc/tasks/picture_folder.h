// The pictures of a run whose trainers have a folder of them each (--data): opened, looked through,
// and compared with the run's.
//
// A key of the run file holds the folder's fingerprint:
//   "none"    the host's folder decides (TrainingTask::decided_config)
//   "any"     peers may have different pictures
//   64 hex    of the folder that everybody needs
// A folder that differs is found here, before anything is trained.
//
// Pictures that cannot be read are left out; a warning counts them and names the first ones. The
// folder that was opened last stays known, as a host opens its folder twice.
//
// Cost: a first pass that reads up to 256 KiB of every file; options.progress is told. Thread: any.
// Errors: not_found  no folder was given, or it is not there
//         bad_input  no pictures in it, captions that are wrong, or a key that is none of the above
//         conflict   other pictures than the run's

#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "dedloc/images/folder.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr const char* undecided_pictures = "none";
inline constexpr const char* any_pictures = "any";

// bad_input: `value` is no fingerprint, "none" or "any". `key`: "swav.pictures".
Ok check_pictures_key(std::string_view key, const std::string& value);

Result<std::shared_ptr<const images::ImageFolder>> open_pictures(const TaskOptions& options,
                                                                 std::string_view key,
                                                                 const std::string& value);

}  // namespace dedloc::tasks
