// The lab's commands that need more than the simulator: real processes, libtorch.
//
//   dedloc-lab faults --repeat 50 [--parallel N] [--stop-seconds S] [--minutes M] [--json]
//   dedloc-lab storm [--dialers N] [--seconds S] [--json]
//   dedloc-lab equivalence [--steps N] [--json]       (builds with libtorch)

#pragma once
#include <memory>

namespace CLI {
class App;
}

namespace dedloc::lab {

// Adds them to `lab`; `code` gets the exit code of the one that runs. Keep what is returned until
// the command line is parsed.
std::shared_ptr<void> add_process_commands(CLI::App& lab, int& code);

}  // namespace dedloc::lab
