// Two programs: `dedloc` knows every task and computes none that needs libtorch, whose hundreds of
// libraries take a third of a second to load; `dedloc-trainer` beside it is the same with libtorch.
// A command that computes goes on there, as the same process with the same arguments.
//
// Builds without libtorch have no second program, and programs that link their tasks themselves
// need none. Thread: the main thread, before there are others.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::peer {

inline constexpr const char* trainer_name = "dedloc-trainer";

// Looks for what the trainer needs of this machine (installed_torch.h), if this program is not it.
Ok prepare_trainer();

// Does not return where this program lacks what computes and the trainer is there. `line`: what was
// read from standard input where an argument is "-", for the trainer to read it again.
void become_trainer(const std::string& line = {});

// This program lacks what computes, and would have it from the trainer: another package has that.
bool lacks_trainer();

}  // namespace dedloc::peer
