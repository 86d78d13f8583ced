// The pictures of a run whose trainers have a folder of them each (--data): opened, looked through,
// and compared with the run's.
//
// A key of the run file names them (pictures_key.h). A folder that differs is found here, before
// anything is trained, and which of its files differ is said.
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
#include "dedloc/tasks/pictures_key.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const images::ImageFolder>> open_pictures(const TaskOptions& options,
                                                                 std::string_view key,
                                                                 const std::string& value);

}  // namespace dedloc::tasks
