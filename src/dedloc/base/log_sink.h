// A program that draws on the terminal takes the log's lines meanwhile: on standard error they
// would lie across the picture until it is drawn again.
//
// Thread: any. The taker is called by whoever logs, one line at a time; it must be quick and must
// not log.

#pragma once
#include <functional>
#include <string>

namespace dedloc::base {

using LogTaker = std::function<void(std::string line)>;

// From now on lines go to `taker`; none: to standard error again, and the one before is not called
// any more.
void give_log_lines_to(LogTaker taker);

}  // namespace dedloc::base
